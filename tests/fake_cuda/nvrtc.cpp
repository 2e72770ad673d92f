// A compiler of CUDA kernels whose machine code is the path of a library for this processor: the
// emulator's header stands in for a GPU. FAKE_CUDA_EMULATOR is the folder of that header, and
// FAKE_CUDA_FOLDER is where libraries go.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

enum Result { SUCCESS = 0, COMPILATION = 6 };

struct Program {
    std::string source;
    std::map<std::string, std::string> headers;
    std::string cubin, log;
};

static std::atomic<int> programs;

#ifndef WITHOUT_FUNCTIONS
extern "C" {
int nvrtcVersion(int* major, int* minor) {
    *major = 13;
    *minor = 0;
    return SUCCESS;
}

int nvrtcCreateProgram(Program** program, const char* source, const char*, int headers,
                       const char* const* texts, const char* const* names) {
    *program = new Program{source, {}, {}, {}};
    for (int i = 0; i < headers; ++i) (*program)->headers[names[i]] = texts[i];
    return SUCCESS;
}

int nvrtcDestroyProgram(Program** program) {
    delete *program;
    return SUCCESS;
}

int nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    const std::string folder = std::string(getenv("FAKE_CUDA_FOLDER")) + "/program-" +
                               std::to_string(getpid()) + "-" + std::to_string(programs++);
    if (system(("mkdir -p " + folder).c_str())) return COMPILATION;
    for (auto& [name, text] : program->headers) std::ofstream(folder + "/" + name) << text;
    std::ofstream(folder + "/source.cpp") << program->source;
    std::string command = "g++ -std=c++17 -O1 -shared -fPIC -ffp-contract=off -w -DEMULATED -I " +
                          folder + " -I " + getenv("FAKE_CUDA_EMULATOR");
    const std::string macro = "--define-macro=";
    for (int i = 0; i < count; ++i) {
        const std::string option = options[i];
        if (option.rfind(macro, 0) == 0) command += " -D" + option.substr(macro.size());
    }
    const std::string library = folder + "/kernels.so";
    command += " " + folder + "/source.cpp -o " + library + " 2> " + folder + "/log";
    if (system(command.c_str())) {
        std::stringstream log;
        log << std::ifstream(folder + "/log").rdbuf();
        program->log = log.str();
        return COMPILATION;
    }
    program->cubin = library;
    return SUCCESS;
}

int nvrtcGetCUBINSize(Program* program, size_t* bytes) {
    *bytes = program->cubin.size() + 1;
    return SUCCESS;
}

int nvrtcGetCUBIN(Program* program, char* cubin) {
    strcpy(cubin, program->cubin.c_str());
    return SUCCESS;
}

int nvrtcGetProgramLogSize(Program* program, size_t* bytes) {
    *bytes = program->log.size() + 1;
    return SUCCESS;
}

int nvrtcGetProgramLog(Program* program, char* log) {
    strcpy(log, program->log.c_str());
    return SUCCESS;
}
}
#endif
