/* Decision values of texts by an exported model: driver MODEL TEXTS VALUES; prints milliseconds of loading, seconds,
 * and bytes of memory. TEXTS: for each text its length (uint32) and UTF-8. */
#define _POSIX_C_SOURCE 200809L
#include "textsvm.h"
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *mapped(const char *path, size_t *bytes) {
    struct stat s;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &s))
        exit(1);
    *bytes = (size_t)s.st_size;
    return mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, file, 0);
}

int main(int n, char **names) {
    size_t model_bytes, bytes, most = 1 << 20;
    double clock = now(), load, best = 1e9;
    const void *model = n > 3 ? mapped(names[1], &model_bytes) : NULL;
    textsvm *m = textsvm_open(model, model_bytes, most, NULL);
    const char *texts = mapped(names[2], &bytes);
    double *values = calloc(textsvm_decisions(m), sizeof *values);
    load = now() - clock;
    for (int run = 0; run < 4; run++) {
        FILE *out = run ? NULL : fopen(names[3], "wb");
        clock = now();
        for (size_t at = 0; at < bytes;) {
            uint32_t length;
            memcpy(&length, texts + at, 4);
            if (textsvm_decide_with(m, texts + at + 4, length, values))
                return 2;
            at += 4 + length;
            if (out)
                fwrite(values, sizeof *values, textsvm_decisions(m), out);
        }
        clock = now() - clock;
        best = run && clock < best ? clock : best;
        if (out)
            fclose(out);
    }
    printf("%g %g %zu\n", 1e3 * load, best, textsvm_memory(model, model_bytes, 10000));
    return 0;
}
