"""Forms of HTML pages with words that are displayed ("seen") and words that are not ("ham").

`python tests/page_forms.py` compares them with Chromium. Styles that hide from the eye and not from innerText
are judged by computed styles and positions.
"""

import re
import sys
from itertools import product

#: Declarations that hide the text of a block.
HIDING = (
    "display:none", "display: NONE !important", "DISPLAY:none;color:red", "disp\\6c ay:none",
    "display:/**/none", "visibility:hidden", "visibility:collapse", "opacity:0", "opacity:0.0",
    "opacity:0%", "opacity:.01", "font-size:0", "font-size:0px", "font-size:1px", "font-size:0em",
    "font-size:0%", "font-size:0.02in", "font-size:1pt", "font-size:.05rem", "font:0/0 a",
    "font:bold 1px Arial", "font-size:0;font-size:nonsense", "max-height:0;overflow:hidden",
    "height:0;overflow:hidden", "width:0;overflow:hidden", "max-width:0;overflow:hidden;white-space:nowrap",
    "height:1px;overflow:hidden", "max-height:0;overflow:clip", "text-indent:-9999px",
    "position:absolute;left:-9999px", "position:absolute;top:-5000px", "position:fixed;left:-300em",
    "margin-left:-9999px", "color:white", "color:#fff", "color:#FEFEFE", "color:rgb(255,255,255)",
    "color:#000;background:#000", "background-color:blue;color:#0000ff", "color:transparent",
    "color:rgba(0,0,0,0)", "display:none;display:bogus", "font-size:calc(1px - 1px)",
    "font-size:calc(.1em * .5)", "font-size:min(0px, 1em)", "font-size:clamp(0px, .01em, 1px)",
    "max-height:calc(2px - 1px * 2);overflow:hidden", "margin-left:calc(-100px * 90)", "opacity:1%",
    "position:absolute;left:calc(0px - 9999px)", "position:absolute;inset:-9999px auto auto 0",
    "margin:0 0 0 -9999px", "position:absolute;left:-100%", "text-indent:-100%",
    "text-indent:100%;white-space:nowrap;overflow:hidden",
    "height:0;overflow:hidden visible", "height:0;overflow-y:hidden", "transform:scale(0)",
    "transform:scale(.001)", "transform:scaleX(0)", "transform:rotate(3deg) scale3d(1,0,1)", "scale:0",
    "transform:translateX(-9999px)", "transform:translate(-500em,0)", "translate:-9999px",
    "transform:rotateX(90deg)", "transform:rotateX(100grad)",
    "transform:rotateY(.25turn)", "-webkit-transform:scale(0)",
    "clip-path:inset(50%)", "clip-path:inset(0 0 100% 0)", "clip-path:circle(0)",
    "clip-path:circle(0 at 50% 50%)",
    "clip-path:polygon(0 0,0 0,0 0)", "-webkit-clip-path:inset(100%)",
    "position:absolute;clip:rect(0,0,0,0)", "position:absolute;clip:rect(1px,1px,1px,1px)",
    "position:absolute;clip:rect(0 0 0 0)", "filter:opacity(0)", "filter:blur(0) opacity(1%)",
    "-webkit-text-fill-color:white", "-webkit-text-fill-color:transparent", "content-visibility:hidden",
    "display:table-column", "color:white;background-image:none", "background:#123;color:#123;opacity:initial",
    "scale:1%", "transform:scale(1%)", "transform:scale(100%,1%)", "transform:scale(calc(0.01))",
    "opacity:calc(0.01)", "opacity:calc(1%)", "opacity:min(0,1)", "opacity:0;opacity:5px",
    "filter:opacity(calc(0))",
    "position:relative;left:-9999px", "position:relative;top:-9999px", "position:relative;right:9999px",
    "position:relative;inset:-9999px auto auto 0", "position:relative;left:-100%",
    "transform:matrix(0,0,0,0,0,0)", "transform:matrix(0,0,0,1,0,0)", "transform:matrix(1,1,1,1,0,0)",
    "transform:matrix(1,0,0,1,-9999,0)", "transform:matrix3d(0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1)",
)  # fmt: skip
#: Declarations that hide nothing.
SHOWING = (
    "font-size:1em", "font-size:0.9em", "font-size:1.2em", "font-size:100%", "font-size:1rem",
    "font-size:.2in", "font-size:10px", "font-size:1.5em", "font-size:xx-small", "font-size:smaller",
    "font-size:1.0em", "font:1em/1.2 Arial", "font:bold 12px Arial", "max-height:0.9in",
    "max-height:0.9in;overflow:hidden", "max-height:0", "height:0", "opacity:0.9", "opacity:1",
    "display:block", "display:inline", "visibility:visible", "display:none;display:block",
    "display:block !important;display:none", "color:white;background:black",
    "color:white;background:url(x.gif)", "color:#eee;background-color:#333", "text-indent:2em",
    "position:absolute;left:10px", "left:-9999px", "width:100%;overflow:hidden",
    "min-height:0;overflow:hidden", "line-height:1", "letter-spacing:0", "color:bogus", "display:bogus",
    "font-size:-1px", "x-display:none", "content:'display:none'", "border:0;margin:0;padding:0",
    "mso-line-height-rule:exactly", "font-size:calc(1em + 1px)", "font-size:calc((1em + 4px) / 2)",
    "font-size:max(0px, 1em)", "font-size:clamp(8px, 0px, 20px)", "font-size:calc(0px / (1 + 1px))",
    "max-height:calc(1em + 9px);overflow:hidden",
    "margin-left:calc(0px + 2em)", "opacity:0;opacity:initial", "opacity:0;opacity:revert", "opacity:auto",
    "display:none;display:revert", "display:none;display:unset", "display:none;display:initial",
    "visibility:hidden;visibility:unset", "visibility:hidden;visibility:revert",
    "font-size:0;font-size:unset",
    "font-size:0;font-size:initial", "font-size:0;font:revert", "color:white;color:inherit",
    "color:white;color:initial", "color:white;color:unset", "color:white;color:currentColor",
    "max-height:0;max-height:unset;overflow:hidden", "text-indent:-9999px;text-indent:initial",
    "transform:scale(1.5)", "transform:translateX(2em)", "transform:rotate(5deg)", "transform:none",
    "transform:scale(0);transform:none", "transform:rotateX(30deg)",
    "transform:rotateX(30grad)", "clip-path:inset(0)", "clip-path:none",
    "clip-path:circle(2000px)", "clip-path:polygon(0 0,100% 0,100% 100%,0 100%)", "clip:rect(0,0,0,0)",
    "position:absolute;clip:auto", "position:absolute;clip:rect(0,900px,90px,0)", "filter:none",
    "filter:opacity(.9)", "filter:grayscale(1)", "color:white;-webkit-text-fill-color:black",
    "color:white;background-image:url(x.gif)", "color:white;background-image:linear-gradient(red,blue)",
    "margin:0 auto", "inset:-9999px", "margin:1em 2em 1em 2em", "margin:-9999px bogus", "zoom:1", "zoom:80%",
    "overflow:hidden auto", "overflow:visible hidden", "line-height:0",
    "scale:90%", "transform:scale(90%)", "transform:scale(0,1px)", "scale:none",
    "opacity:5px", "opacity:0px", "opacity:calc(0px)", "opacity:calc(.9)", "opacity:calc(90%)",
    "filter:opacity(0px)",
    "position:relative;left:10px", "position:relative;left:0;right:9999px", "position:static;top:-9999px",
    "position:sticky;left:-9999px",
    "transform:matrix(1,0,0,1,0,0)", "transform:matrix(.2,0,0,.2,0,0)",
    "transform:matrix(0,0,0,0,0)", "transform:matrix3d(1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1)",
)  # fmt: skip
WAYS = (
    "<div style=\"{0}\">{1}</div>",
    "<style>.c {{ {0} }}</style><div class=c>{1}</div>",
    "<style>div#i.c, h1 {{ {0} }}</style><div id=i class='b c'>{1}</div>",
    "<style>@media screen {{ div.d {{ {0} }} }}</style><div class='d'><p>{1}</p></div>",
)  # fmt: skip
#: Pages with the words that are displayed, without their case.
PAGES = (
    ("seen <!-->seen<!-- ham -->", "seen seen"),
    ("seen <!--->seen", "seen seen"),
    ("seen<!-- ham --!> seen", "seen seen"),
    ("seen<!-- ham -- > ham --> seen", "seen seen"),
    ("<xml>seen</xml>", "seen"),
    ("<![CDATA[ham]]>seen", "seen"),
    ("<![if !mso]>seen<![endif]>", "seen"),
    ("<!--[if mso]>ham<![endif]-->seen", "seen"),
    ("<p style='line-height:0;overflow:hidden'>ham<p>seen", "seen"),
    ("<style>p,{display:none}</style><p>seen", "seen"),
    ("<style>p,::foo(x){display:none}</style><p>seen", "seen"),
    ("<style>p,1x{display:none}</style><p>seen", "seen"),
    ("<style>p,,b{display:none}</style><p>seen", "seen"),
    ("<style>p,a:unknownx{display:none}</style><p>seen", "seen"),
    ("<style>p,a:hover{display:none}</style><p>ham</p>seen", "seen"),
    ("<style type='text/plain'>p{display:none}</style><p>seen", "seen"),
    ("<style type='text/css'>p{display:none}</style><p>ham</p>seen", "seen"),
    ("<div style='height:0;padding-bottom:50px;overflow:hidden'>seen</div>", "seen"),
    ("<div style='height:0;padding:0 0 50px;overflow:hidden'>seen</div>", "seen"),
    ("<div style='height:0;min-height:50px;overflow:hidden'>seen</div>", "seen"),
    ("<div style='max-width:0;min-width:300px;overflow:hidden'>seen</div>", "seen"),
    ("<div style='height:0;min-width:300px;overflow:hidden'>ham</div>seen", "seen"),
    ("<div style='width:0;padding-bottom:50px;overflow:hidden'>ham</div>seen", "seen"),
    ("<style>div .a b {display:none}</style><div><p class=a><b>ham</b>seen</div><b>seen", "seen seen"),
    ("<style>td > p, ul > li {display:none}</style><div><p>seen</p><ul><li>ham</ul></div>", "seen"),
    ("<style>u + .b p {display:none}</style><body class=b><p>seen", "seen"),
    ("<style>p:hover {display:none} p::before {font-size:0}</style><p>seen", "seen"),
    ("<style>div p {display:none} p.y {display:block}</style><div><p class=y>seen<p>ham</div>", "seen"),
    ("<style>div p.y {display:none} p {display:block}</style><div><p class=y>ham<p>seen</div>", "seen"),
    ("<style>div #a{display:none} #a{display:block}</style><div><p id=a>ham</div><p>seen", "seen"),
    ("<style>#a{display:none} div p.b#a{display:block}</style><div><p id=a class=b>seen</div>", "seen"),
    ("<style>#a{display:none} .b.c.d.e.f.g.h.i.j.k.l{display:block}</style>"
     "<p id=a class='b c d e f g h i j k l'>ham<p>seen", "seen"),
    ("<style>p[title=x]{display:none} p.y{display:block}</style><p title=x class=y>seen", "seen"),
    ("<style>p[title='#x']{display:none} p.y{display:block}</style><p title='#x' class=y>seen", "seen"),
    ("<!doctype html><p style='position:relative;top:-100%'>seen", "seen"),
    ("<!doctype html><p style='position:relative;inset:-100% auto auto 0'>seen", "seen"),
    ("<div><p style='position:relative;top:calc(-90% - 900px)'>seen</div>", "seen"),
    ("<p color=white>seen<font color=white>ham</font>", "seen"),
    ("<div bgcolor=black>seen</div><table bgcolor=black><tr><td>ham</table>", "seen"),
    ("<p background=x.gif style='color:white'>ham<p>seen", "seen"),
    ("<div text=white>seen</div>", "seen"),
    ("<body text=white>ham<p style='color:black'>seen", "seen"),
    ("<div popover>ham</div>seen", "seen"),
    ("<details><summary>seen</summary>ham</details>seen", "seen seen"),
    ("<div style='font-size:0'>ham<p style='font-size:12px'>seen</p>ham</div>", "seen"),
    ("<div style='transform:scale(0)'>ham<p>ham</div><span style='transform:scale(0)'>seen</span>", "seen"),
    ("<dialog open style='display:revert'>seen</dialog><details open>seen</details>", "seen seen"),
    ("<a href=x style='color:inherit'>seen</a>", "seen"),
    ("<div style='color:white'>ham<a href=x style='color:inherit'>ham</a><a href=x>seen</a></div>", "seen"),
    ("<?xml ham?>seen", "seen"),
    ("<p title='<!--'>seen<p title='-->'>seen", "seen seen"),
    ("<p title='<div hidden>'>seen", "seen"),
    ("<p title=\"</p>>\">seen</p>", "seen"),
    ("<p hidden>ham<p>seen", "seen"),
    ("<div hidden>ham<p>ham</div>seen", "seen"),
    ("<ul><li hidden>ham<li>seen</ul>", "seen"),
    ("<table><tr><td hidden>ham<td>seen<tr hidden><td>ham</table>", "seen"),
    ("<div><span style='display:none'>ham</div>seen", "seen"),
    ("<b hidden>ham<p>ham</b>seen", "seen"),
    ("<div style='display:none'/>ham", ""),
    ("<br style='display:none'/>seen", "seen"),
    ("<div hidden>ham</div hidden>seen", "seen"),
    ("<title>ham</title>seen", "seen"),
    ("<title>ham</titl>seen", ""),
    ("<textarea hidden>ham</textarea>seen", "seen"),
    ("<template>ham</template>seen", "seen"),
    ("<noscript>seen</noscript>", "seen"),
    ("<iframe>ham</iframe>seen", "seen"),
    ("<noframes>ham</noframes>seen", "seen"),
    ("<script>ham</script >seen", "seen"),
    ("<script>ham</scripts>ham", ""),
    ("<script><!-- <script>ham</script> --></script>seen", "seen"),
    ("<style>ham</style>seen", "seen"),
    ("<style>p{display:none}</style><p>ham</p><div>seen", "seen"),
    ("<style>p{display:none} p.s{display:block}</style><p>ham</p><p class=s>seen", "seen"),
    ("<style>.a{display:none!important}</style><p class=a style='display:block'>ham</p>seen", "seen"),
    ("<style media=print>p{display:none}</style><p>seen", "seen"),
    ("<style>@media print{p{display:none}}</style><p>seen", "seen"),
    ("<style>@media screen and (max-width:100px){p{display:none}}</style><p>seen", "seen"),
    ("<style>/* p{display:none} */</style><p>seen", "seen"),
    ("<style><!-- p{display:none} --></style><p>ham</p>seen", "seen"),
    ("<p style='visibility:hidden'>ham <b style='visibility:visible'>seen</b></p>", "seen"),
    ("<div style='font-size:0'>ham<span style='font-size:14px'>seen</span></div>", "seen"),
    ("<div style='font-size:20px'><p style='font-size:0em'>ham<p style='font-size:.5em'>seen</div>", "seen"),
    ("<font color=white>ham</font><font color=navy>seen</font>", "seen"),
    ("<font color=white><a href=x>seen</a></font>", "seen"),
    ("<table bgcolor=black><td><font color=white>seen</font><font color=black>ham</font></table>", "seen"),
    ("<body text=white bgcolor=white>ham", ""),
    ("<body text=white bgcolor=#000080>seen", "seen"),
    ("<div style='font-size:0'><table><td>seen</table></div>", "seen"),
    ("<!doctype html><div style='font-size:0'><table><td>ham</table></div>seen", "seen"),
    ("<!doctype html><div style='font-size:0;'>ham</div><div style='font-size:1'>seen", "seen"),
    ("<style>.UP{display:none}</style><p class=up>ham</p>seen", "seen"),
    ("<!doctype html><style>.UP{display:none}</style><p class=up>seen", "seen"),
    ("se<b></b>en se<!-- x -->en s<span>e</span>en", "seen seen seen"),
    ("se<span hidden>ham</span>en", "seen"),
    ("seen<p>seen<br>seen<div>seen</div>seen", "seen seen seen seen seen"),
    ("<table><tr><td>seen<td>seen<tr><td>seen</table>", "seen seen seen"),
    ("&#115;een &#x73;een s&ZeroWidthSpace;een", "seen seen seen"),
    ("<p>seen</p", "seen"),
    ("seen<a href='", "seen"),
    ("<pre>seen\nseen</pre>", "seen seen"),
    ("<select><option>seen<option>seen</select>", "seen seen"),
    ("<plaintext>seen", "seen"),
    ("<svg><title>ham</title></svg>seen", "seen"),
    ("<dialog>ham</dialog>seen", "seen"),
    ("</body></html>seen", "seen"),
    ("<head><p>seen</head> seen", "seen seen"),
    ("<frameset>ham", ""),
    (f"<p style='{'color:red;' * 900}display:none'>ham</p>seen", "seen"),
    (f"<style>{'p{color:red} ' * 4000}p{{display:none}}</style><p>ham</p>seen", "seen"),
)  # fmt: skip


def forms():
    """Sources of pages and their displayed words."""
    yield from PAGES
    for way, style in product(WAYS, HIDING):
        # `width` and `height` have no use for a cell of a table, and so are of blocks here.
        yield "seen " + way.format(style, "ham") + "<p>seen", "seen seen"
    for way, style in product(WAYS[:2], SHOWING):
        yield "seen " + way.format(style, "seen seen") + "<p>seen", "seen seen seen seen"


def words(text):
    return " ".join(re.findall(r"\w+", text.replace("\u200b", "").lower()))


#: Text that the eye does not see is removed from the page, and the rest is as innerText has it.
SCRIPT = """() => {
  const clipped = (text, element) => {
    const style = getComputedStyle(element);
    if (style.clipPath == "none" && style.clip == "auto") return false;
    const range = document.createRange();
    range.selectNode(text);
    const box = range.getBoundingClientRect(), parent = text.parentElement;
    const hit = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    return !hit || !parent.contains(hit);
  };
  const placeOf = text => {
    const range = document.createRange();
    range.selectNode(text);
    return range.getBoundingClientRect();
  };
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const unseen = text => {
    const own = getComputedStyle(text.parentElement), colour = numbers(own.webkitTextFillColor);
    if (/STYLE|OPTION/.test(text.parentElement.tagName)) return false;
    const place = placeOf(text);
    if (Math.min(place.width, place.height) < 2 || Math.min(place.right, place.bottom) < -390) return true;
    if (parseFloat(own.fontSize) < 2 || colour[3] < .05) return true;
    let back = null;
    for (let e = text.parentElement; e; e = e.parentElement) {
      const style = getComputedStyle(e), box = e.getBoundingClientRect();
      const outside = Math.min(parseFloat(style.textIndent) || 0, box.left, box.top) < -390;
      const clips = /hidden|clip/.test(style.overflowX + style.overflowY) && style.display != "inline" &&
        !/HTML|BODY/.test(e.tagName);
      if (clipped(text, e) || /opacity\\((0|0?\\.0\\d*)\\)/.test(style.filter)) return true;
      if (style.opacity < .05 || outside || (clips && (Math.min(box.width, box.height) < 2 ||
        place.left >= box.right))) return true;
      const solid = numbers(style.backgroundColor);
      if (!back && (style.backgroundImage != "none")) back = [];
      if (!back && solid[3] !== 0) back = solid;
    }
    back = back || [255, 255, 255];
    return back.length > 0 && [0, 1, 2].every(i => Math.abs(back[i] - colour[i]) <= 16);
  };
  const walker = document.createTreeWalker(document, NodeFilter.SHOW_TEXT), texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts.filter(text => text.data.trim() && unseen(text))) text.data = " ";
  return document.body ? document.body.innerText || "" : "";
}"""


def displayed(browser, sources):
    """The displayed text of pages in Chromium, without scripts and network."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.route("**/*", lambda route: route.abort())
    for source in sources:
        page.set_content(source, wait_until="commit")
        yield page.evaluate(SCRIPT)
    context.close()


def main():
    from playwright.sync_api import sync_playwright

    from textsvm.readers.pages import page_text

    pages = [*forms()]
    wrong = 0
    with sync_playwright() as program:
        browser = program.chromium.launch(executable_path=sys.argv[1] if sys.argv[1:] else None)
        texts = [*displayed(browser, [source for source, _ in pages])]
        browser.close()
    for (source, expected), text in zip(pages, texts, strict=True):
        ours = words(page_text(source)[0])
        if not words(text) == expected == ours:
            wrong += 1
            print(f"{source!r}: expected {expected}, Chromium {words(text)}, page_text {ours}")
    print(f"{len(pages)} forms, {wrong} differ")


if __name__ == "__main__":
    main()
