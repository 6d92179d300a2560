/*
 * Runs a compiled model on raw arrays, a file each:
 *
 *     luthier compile MODEL.onnx -o model.so
 *     cc -O2 -I. main.c -L. -l:model.so -Wl,-rpath,'$ORIGIN' -o run
 *     ./run 0 INPUT.bin ... OUTPUT.bin ...
 *
 * The first argument is the number of threads, 0 for what the model was compiled for.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

static const size_t input_bytes[] = MODEL_INPUTS_BYTES;
static const size_t output_bytes[] = MODEL_OUTPUTS_BYTES;

/* The whole file, which must have so many bytes; null otherwise. */
static void *read_array(const char *path, size_t bytes) {
    FILE *file = fopen(path, "rb");
    char *data = malloc(bytes + 1);
    /* One byte more than there should be, so that a file that is too long is noticed. */
    size_t found = file && data ? fread(data, 1, bytes + 1, file) : 0;
    if (file) fclose(file);
    if (found == bytes) return data;
    fprintf(stderr, "%s: expected %zu bytes\n", path, bytes);
    free(data);
    return NULL;
}

static int write_array(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    int good = file && fwrite(data, 1, bytes, file) == bytes;
    if (file && fclose(file)) good = 0;
    if (!good) perror(path);
    return good;
}

int main(int argc, char **argv) {
    const void *inputs[MODEL_INPUTS];
    void *outputs[MODEL_OUTPUTS];
    model_context *context;
    int32_t code;
    int i;

    if (argc != 2 + MODEL_INPUTS + MODEL_OUTPUTS) {
        fprintf(stderr, "usage: %s THREADS INPUT.bin (%d) OUTPUT.bin (%d)\n", argv[0], MODEL_INPUTS, MODEL_OUTPUTS);
        return 2;
    }
    for (i = 0; i < MODEL_INPUTS; i++)
        if (!(inputs[i] = read_array(argv[2 + i], input_bytes[i]))) return 1;
    for (i = 0; i < MODEL_OUTPUTS; i++)
        if (!(outputs[i] = malloc(output_bytes[i]))) return 1;

    code = model_create(atoi(argv[1]), &context);
    if (code == MODEL_OK) {
        code = model_run(context, inputs, outputs);
        model_destroy(context);
    }
    if (code != MODEL_OK) {
        fprintf(stderr, "%s\n", model_error(code));
        return 1;
    }
    for (i = 0; i < MODEL_OUTPUTS; i++)
        if (!write_array(argv[2 + MODEL_INPUTS + i], outputs[i], output_bytes[i])) return 1;
    return 0;
}
