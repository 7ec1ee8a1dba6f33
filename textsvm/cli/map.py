"""textsvm map: documents and classes of a corpus by similarity, as a tree and as points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from textsvm.cli import machines, options
from textsvm.cli.console import Console, WrongUsage
from textsvm.cli.options import option_field
from textsvm.cli.output import PICTURES, REPORTS, STDOUT, Force, Output
from textsvm.kernels.spelling import spell


@dataclass(frozen=True)
class MapOptions:
    """Kernel and output of a map."""

    kernel: machines.KernelOptions
    output: Path | None = option_field(
        "Output file: a page, .html, or all charts in a picture, .svg.", "--output", "-o"
    )
    force: Force = False

    def checked(self, corpus: list[Path]) -> Output:
        """Output file; raises WrongUsage."""
        if self.output is None:
            raise WrongUsage("-o FILE is missing; name a file that ends in .html or .svg")
        suffix = self.output.suffix.lower()
        if suffix not in (".html", ".svg") or self.output == STDOUT:
            raise WrongUsage(f"-o {self.output}: the name must end in .html or .svg")
        kind = REPORTS[suffix] if suffix == ".html" else PICTURES[suffix]
        return Output("-o", self.output, kind, self.force).checked({"the corpus": corpus})


#: Fields of groups that are no options of `map`.
_WITHOUT = {
    "annotators", "chunk", "groups", "headers", "labels", "negative", "positive", "numbers", "vectors",
    "part",
}  # fmt: skip


@partial(options.with_groups, without=_WITHOUT)
def map(
    corpus: options.CorpusPath, reading: options.ReadingOptions, cutting: options.CuttingOptions,
    drawing: MapOptions, printing: options.PrintingOptions,
) -> None:  # fmt: skip
    """Draw documents and classes by the similarity of their texts: a tree, and points in two dimensions.

    textsvm map novels/ --kernel words:1,log -o novels.svg

    Texts without labels are drawn too. Of more than 2,000 documents a sample is drawn.
    """
    from textsvm.cli import corpora, settings
    from textsvm.evaluation import class_map
    from textsvm.model.settings import ClassifierSettings, Compute
    from textsvm.reporting import charts, html, maps
    from textsvm.runtime.device import to_host
    from textsvm.training.train import prepare

    output, console = drawing.checked(corpus), Console(printing.quiet)
    compared = settings.checked(lambda: ClassifierSettings(drawing.kernel.single("fast")))
    documents = corpora.read(console, corpus, reading, kernel=compared.kernel)
    compared = settings.settle(console, compared, drawing.kernel.named, documents, auto=False)
    documents = corpora.cut(console, documents, cutting)
    drawn = class_map.sample(documents.labels, len(documents))
    if len(drawn) < len(documents):
        console.say(f"note: {len(drawn):,} of {len(documents):,} documents are drawn")
    shown = documents.subset(drawn)
    whole = replace(compared, compute=Compute(memory=1 << 62))  # the sample is small
    with console.progress():
        gram = prepare(whole, shown.examples, console.stage).gram
        values = to_host(gram.window().values)
    console.lap("gram")
    mapped = class_map.class_map(values, shown.labels)
    kernel, device = compared.new_kernel(), gram.device
    lead = f"{len(drawn):,} of {len(documents):,} documents, compared by the kernel {spell(kernel)}"
    picture = html.page(f"Map of {corpora.names_of(corpus)}", lead, maps.map_sections(mapped, shown.ids))
    output.write_lines([picture if output.kind is REPORTS[".html"] else charts.stacked(picture)])
    seconds = console.lap("map")
    console.say_device(device)
    if printing.json:
        facts = {"output": str(output.path), "rows": len(drawn), "map": mapped.as_dict()}
        described = {"kernel": kernel.structure.as_dict(), "kernel_spelled": spell(kernel)}
        console.print_json({**facts, **described, "device": device.description, "seconds": seconds})
        return
    rows = [("documents", f"{len(drawn):,}"), ("kernel", spell(kernel)), ("device", device.description)]
    console.table(f"map {output.path}", rows)
