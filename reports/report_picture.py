"""python reports/report_picture.py: pictures of an evaluation report on the sample mails, for the README.

Needs Playwright and a Chromium (`playwright install chromium`, or one on the PATH).
"""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from textsvm import SVC, CalibratedSVC, Spectrum, read_corpus
from textsvm.evaluation.judge import judge
from textsvm.readers import sample
from textsvm.reporting.files import write
from textsvm.reporting.report import make_report

corpus = read_corpus(sample("mail")).reduce_labels("spam", "ham")
training, test = (corpus.subset(range(first, len(corpus), 2)) for first in (0, 1))
model = CalibratedSVC(SVC(Spectrum(p=4), C=10, device="cpu")).fit(training.texts, training.labels)
results = judge(model, test.texts, test.labels, "spam")
with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
    page_file = Path(folder, "report.html")
    write(make_report(model, results, test.texts, test.ids, "A spam filter on the sample mails"), page_file)
    browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
    for scheme in ("light", "dark"):
        page = browser.new_page(viewport={"width": 1060, "height": 1280}, color_scheme=scheme)
        page.goto(page_file.as_uri())
        page.screenshot(path=Path(__file__).with_name(f"report_{scheme}.png"))
        if scheme == "light":
            # The words of a mistake, coloured.
            page.set_viewport_size({"width": 1060, "height": 620})
            page.evaluate("document.querySelector('.document').closest('article').scrollIntoView()")
            page.evaluate("scrollBy(0, -170)")
            page.screenshot(path=Path(__file__).with_name("report_mistakes.png"))
    browser.close()
