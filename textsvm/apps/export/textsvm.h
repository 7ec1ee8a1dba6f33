/* textsvm: decisions of a trained text classifier, from a model file. C99; needs only the C library.
 *
 *     int error;
 *     textsvm *m = textsvm_open(data, bytes, 100000, &error);
 *     double *decision = m ? malloc(textsvm_decisions(m) * sizeof *decision) : NULL;
 *     if (decision && !textsvm_decide_with(m, text, length, decision))
 *         puts(textsvm_class(m, textsvm_predict(m, decision), NULL));
 *     free(decision);
 *     textsvm_close(m);
 *
 * `data` is the content of a model file (.bin), mapped, read or compiled in (`xxd -i`), aligned to 8 bytes; it must
 * stay valid. Opening checks it, with its checksum, and allocates the working memory once; nothing is allocated
 * afterwards. The memory is about 50 bytes for each symbol of the longest text, and 30 to 100 more for each of its
 * strings that are counted at a time: one for each symbol with contiguous strings, one for each symbol and pattern
 * with gaps. textsvm_memory computes it. A handle serves a thread at a time; handles may share the data. Texts are
 * UTF-8; invalid bytes become U+FFFD, as by bytes.decode(errors="replace") in Python. docs/export_format.md describes
 * the file. */
#ifndef TEXTSVM_H
#define TEXTSVM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct textsvm textsvm;

/* Error codes. */
enum {
    TEXTSVM_OK = 0,
    TEXTSVM_NO_MODEL = 1, /* not a model file, damaged, of another version, or not aligned to 8 bytes */
    TEXTSVM_NO_MEMORY = 2,
    TEXTSVM_TOO_LONG = 3, /* the text, or its normal form before it is cut, has more code points than max_symbols */
    TEXTSVM_UNSUPPORTED = 4, /* the model has no probabilities, labels or prediction sets */
    TEXTSVM_BAD_ARGUMENT = 5 /* more than 2^28 symbols, a coverage that is not between 0 and 1, or a single text for a
                                model of several columns */
};

/* Tasks, and results of textsvm_predict that are no class. */
enum { TEXTSVM_CLASSES, TEXTSVM_LABELS, TEXTSVM_NUMBER, TEXTSVM_NOVELTY };
enum { TEXTSVM_UNSURE = -1, TEXTSVM_NO_CLASS = -2 };

/* Check a model file and allocate working memory for texts of up to `max_symbols` code points, before and after
 * normalisation. NULL with a code in `error` (if not NULL) on failure. */
textsvm *textsvm_open(const void *data, size_t bytes, size_t max_symbols, int *error);
void textsvm_close(textsvm *m);

/* The same in memory of the caller, aligned to 16 bytes; textsvm_memory gives its size, 0 if the file is no model,
 * max_symbols is above 2^28, or the size is too large for the machine. */
size_t textsvm_memory(const void *data, size_t bytes, size_t max_symbols);
textsvm *textsvm_open_in(const void *data, size_t bytes, size_t max_symbols, void *memory, int *error);

/* What the model predicts: TEXTSVM_CLASSES, TEXTSVM_LABELS (several for each text), TEXTSVM_NUMBER, or
 * TEXTSVM_NOVELTY (inside or outside of one class). */
int textsvm_task(const textsvm *m);
/* Number of decision values: 1 for TEXTSVM_CLASSES with two classes, TEXTSVM_NUMBER and TEXTSVM_NOVELTY, else the
 * number of classes, also for two labels. */
size_t textsvm_decisions(const textsvm *m);
size_t textsvm_classes(const textsvm *m);
/* Name of a class in UTF-8, ending in a zero byte; its size in `bytes` if not NULL; "" for no such class. */
const char *textsvm_class(const textsvm *m, int number, size_t *bytes);

/* Decision values of a text, textsvm_decisions(m) of them; the predicted number itself for TEXTSVM_NUMBER. */
int textsvm_decide_with(textsvm *m, const char *utf8, size_t n, double *decision);

/* The same with a text for each of the textsvm_columns(m) columns, in the order that `textsvm export` prints. */
size_t textsvm_columns(const textsvm *m);
int textsvm_decide_columns(textsvm *m, const char *const *utf8, const size_t *n, double *decision);

/* The predicted class, TEXTSVM_UNSURE if the model rejects the text; 1 or 0 for inside or outside of one class.
 * TEXTSVM_NO_CLASS for TEXTSVM_LABELS, see textsvm_labels, and for TEXTSVM_NUMBER, where the decision value is the
 * prediction. Uses the working memory of the handle. */
int textsvm_predict(textsvm *m, const double *decision);
/* For TEXTSVM_LABELS: 1 or 0 for each class. */
int textsvm_labels(const textsvm *m, const double *decision, unsigned char *has);
/* Calibrated probability of each class. */
int textsvm_probabilities(const textsvm *m, const double *decision, double *probability);
/* Classes that include the true class with probability `coverage`; see CalibratedSVC.predict_set. */
int textsvm_set(const textsvm *m, const double *probability, double coverage, int per_class, unsigned char *has);

#ifdef __cplusplus
}
#endif
#endif
