"""Time on CPU and GPU

The device is a parameter; results are the same up to the solver's tolerance. Without a CUDA device only the
CPU runs.
"""

import time

from textsvm import SVC, EditDistance, GapWeighted, InputError, read_corpus
from textsvm.readers import sample

corpus = read_corpus(sample("messages"), text="text", label="label")
for kernel in (EditDistance(), GapWeighted(p=5)):
    for device in ("cpu", "cuda"):
        seconds = []
        try:
            for _ in range(2):  # the first also compiles
                begin = time.perf_counter()
                model = SVC(kernel, device=device).fit(corpus.texts, corpus.labels)
                seconds.append(time.perf_counter() - begin)
        except InputError as error:
            print(device, error)
            continue
        name, vectors = type(kernel).__name__, len(model.support_)
        print(f"{name} on {device}: {min(seconds):.2f} s, {vectors} support vectors")
