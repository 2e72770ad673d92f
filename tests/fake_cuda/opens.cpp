// Counts the opens of libraries: preloaded, it stands before the loader's dlopen.
//
// FAKE_OPENS_LOG names a file to which the path of each open is written, a line each.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

extern "C" void* dlopen(const char* path, int flags) {
    typedef void* (*Open)(const char*, int);
    static const Open open = (Open)dlsym(RTLD_NEXT, "dlopen");
    const char* log = getenv("FAKE_OPENS_LOG");
    if (FILE* file = log && path ? fopen(log, "a") : nullptr) {
        fprintf(file, "%s\n", path);
        fclose(file);
    }
    return open(path, flags);
}
