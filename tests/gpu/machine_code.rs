//! Machine code of hot kernels, as NVIDIA's disassembler prints it: how wide their loads and stores are, how many loads are
//! in flight at once, how many registers a thread takes, and no memory of the thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use thalweg::device::cuda::Compiler;
use thalweg::ops::gpu::HEADER;
use thalweg_tensor::DType;
use thalweg_tests::launched_functions::functions;

/// The disassembler (`NVDISASM`, or `nvdisasm` on the path), and a compiler; panics where they are required and missing.
fn tools() -> Option<(Compiler, PathBuf)> {
    let required = std::env::var("REQUIRE_NVDISASM").is_ok_and(|v| v == "1");
    let program = PathBuf::from(std::env::var_os("NVDISASM").unwrap_or("nvdisasm".into()));
    let runs = Command::new(&program).arg("--version").output();
    match (Compiler::open(HEADER), runs) {
        (Ok(compiler), Ok(_)) => Some((compiler, program)),
        (compiler, runs) if required => {
            panic!("REQUIRE_NVDISASM=1: {:?}, {runs:?}", compiler.err())
        }
        _ => {
            println!("SKIPPED: there is no NVRTC, or no nvdisasm");
            None
        }
    }
}

/// Accesses of a function to memory.
#[derive(Debug, Default, PartialEq)]
struct Accesses {
    /// Bits of the widest load from, and the widest store to, the card's memory.
    load: u32,
    store: u32,
    /// The most loads that are started before the first of them is used.
    in_flight: usize,
    /// Loads and stores of the thread's own memory.
    local: usize,
    /// Calls of other functions.
    calls: usize,
    /// Registers of a thread.
    registers: usize,
}

/// The most registers of a thread: 3 blocks of 256 threads have room on a multiprocessor, which has 65,536.
const MAX_REGISTERS: usize = 80;

/// Registers of a thread by function, from the disassembler's text.
fn registers(text: &str) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for entry in text.split("EIATTR_REGCOUNT").skip(1) {
        let mut words = entry.split(".word").skip(1).map(str::trim);
        let name = words.next().and_then(|word| {
            let (_, name) = word.split_once("index@(")?;
            name.split_once(')')
        });
        let count = words.next().and_then(|word| {
            let digits = word.strip_prefix("0x")?.split_whitespace().next()?;
            usize::from_str_radix(digits, 16).ok()
        });
        if let (Some((name, _)), Some(count)) = (name, count) {
            all.insert(name.to_owned(), count);
        }
    }
    all
}

/// Bits of an access, by the words of its opcode.
fn bits(opcode: &str) -> u32 {
    let widths = [(".128", 128), (".64", 64), ("16", 16), ("8", 8)];
    let found = widths.iter().find(|(suffix, _)| opcode.ends_with(suffix));
    found.map_or(32, |(_, bits)| *bits)
}

/// `true` if an instruction names one of these registers.
fn names(operands: &str, registers: &[u32]) -> bool {
    operands
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter_map(|word| word.strip_prefix('R')?.parse().ok())
        .any(|r: u32| registers.contains(&r))
}

/// The loads that instruction `from` and those behind it start before the registers of `from` are used.
fn in_flight(code: &[(&str, &str)], from: usize) -> usize {
    let (opcode, operands) = code[from];
    let first = operands.split(',').next().unwrap_or("").trim();
    let Some(first) = first.strip_prefix('R').and_then(|r| r.parse().ok()) else {
        return 0;
    };
    let registers: Vec<u32> = (first..first + bits(opcode).div_ceil(32)).collect();
    let behind = code[from + 1..].iter().take_while(|(opcode, operands)| {
        !opcode.starts_with("BRA") && !names(operands, &registers)
    });
    1 + behind
        .filter(|(opcode, _)| opcode.starts_with("LDG"))
        .count()
}

/// The opcode and the operands of a line, without its predicate.
fn instruction(line: &str) -> Option<(&str, &str)> {
    let (_, line) = line.split_once("*/")?;
    let line = line.split(';').next()?.trim();
    let line = match line.starts_with('@') {
        true => line.split_once(char::is_whitespace)?.1.trim(),
        false => line,
    };
    line.split_once(char::is_whitespace)
}

/// Accesses by function, from the disassembler's text.
fn accesses(text: &str) -> BTreeMap<String, Accesses> {
    let (mut all, counts) = (BTreeMap::new(), registers(text));
    for section in text.split(".section\t.text.").skip(1) {
        let name: String = section
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let code: Vec<(&str, &str)> = section.lines().filter_map(instruction).collect();
        let mut found = Accesses {
            registers: counts.get(&name).copied().unwrap_or(0),
            ..Accesses::default()
        };
        for (i, (opcode, _)) in code.iter().enumerate() {
            match opcode.split('.').next() {
                Some("LDG") => {
                    found.load = found.load.max(bits(opcode));
                    found.in_flight = found.in_flight.max(in_flight(&code, i));
                }
                Some("STG") => found.store = found.store.max(bits(opcode)),
                Some("LDL" | "STL") => found.local += 1,
                Some("CALL") => found.calls += 1,
                _ => {}
            }
        }
        all.insert(name, found);
    }
    all
}

/// Sources, functions, and the least bits of the widest load and store of 16-bit floats. A function of less than 128 reads
/// rows of any length, or windows, an element at a time.
const EXPECTED: [(&str, &str, [u32; 2]); 30] = [
    ("batch_norm", "BatchNorm", [128, 128]),
    ("batch_norm", "BatchNormAdd", [128, 128]),
    ("batch_norm", "BatchNormMoments", [128, 32]),
    ("batch_norm", "BatchNormProducts", [128, 32]),
    ("batch_norm", "BatchNormGrad", [128, 128]),
    ("batch_norm", "BatchNormReluProducts", [128, 32]),
    ("batch_norm", "BatchNormReluGrad", [128, 128]),
    ("binary", "AddV2", [128, 128]),
    ("binary", "Mul", [128, 128]),
    ("binary", "Sub", [128, 128]),
    ("binary", "Maximum", [128, 128]),
    ("binary", "ReluGrad", [128, 128]),
    ("binary", "ReluGradSum", [128, 128]),
    ("binary", "SigmoidGrad", [128, 128]),
    ("binary", "TanhGrad", [128, 128]),
    ("unary", "Relu", [128, 128]),
    ("unary", "Sigmoid", [128, 128]),
    ("unary", "Tanh", [128, 128]),
    ("unary", "Exp", [128, 128]),
    ("unary", "Square", [128, 128]),
    ("pool", "MaxPool", [128, 128]),
    ("pool", "MaxPoolStoreArgmax", [128, 128]),
    ("pool", "MaxPoolGradStoredArgmax", [128, 128]),
    ("pool", "MaxPoolGrad", [16, 16]),
    ("pool", "AvgPool", [16, 16]),
    ("softmax", "Softmax", [16, 16]),
    ("softmax", "SoftmaxCrossEntropyWithLogits", [16, 16]),
    ("depthwise", "DepthwiseConv2dNative", [16, 16]),
    ("cast", "Cast_f32", [64, 128]),
    ("multi-tensor cast", "Cast_f32", [64, 128]),
];

#[test]
fn hot_kernels_of_half_precision_load_16_bytes_at_once() {
    let Some((compiler, program)) = tools() else {
        return;
    };
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("machine_code");
    std::fs::create_dir_all(&folder).unwrap();
    let mut found: BTreeMap<(String, String), Accesses> = BTreeMap::new();
    for (function, _) in functions().into_values() {
        let source = match function.multi_tensor {
            true => format!("multi-tensor {}", function.source.name),
            false => function.source.name.to_owned(),
        };
        let is_bf16 = function.types.iter().next() == Some(&DType::BF16);
        // The machine code of one source has all of its functions.
        let is_known = found.keys().any(|(s, _)| *s == source);
        if !is_bf16 || is_known || !EXPECTED.iter().any(|(s, ..)| *s == source) {
            continue;
        }
        let path = folder.join(format!("{source}.cubin"));
        std::fs::write(&path, compiler.cubin(&function, "sm_90").unwrap()).unwrap();
        let output = Command::new(&program).arg(&path).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        for (name, accesses) in accesses(&text) {
            found.insert((source.clone(), name), accesses);
        }
    }
    println!("source, function: widest load and store in bits, loads in flight, calls, registers");
    for (source, name, [load, store]) in EXPECTED {
        let one = &found[&(source.to_owned(), name.to_owned())];
        println!(
            "{source}, {name}: {} {} {} {} {}",
            one.load, one.store, one.in_flight, one.calls, one.registers
        );
        assert!(
            one.load >= load && one.store >= store,
            "{source}, {name}: {one:?}"
        );
        assert_eq!(one.local, 0, "{source}, {name} uses memory of its threads");
        assert!(
            (1..=MAX_REGISTERS).contains(&one.registers),
            "{source}, {name}: {one:?}"
        );
        assert!(
            one.calls == 0 || source != "multi-tensor cast",
            "{source}, {name}: {one:?}"
        );
    }
    let moments = &found[&("batch_norm".to_owned(), "BatchNormMoments".to_owned())];
    assert!(moments.in_flight >= 4, "{moments:?}");
}

#[test]
fn accesses_are_read_from_the_disassemblers_text() {
    let text = "\t.section\t.text.One,\"ax\"\n\
        \t/*0000*/    LDG.E.128 R4, desc[UR4][R2.64] ;\n\
        \t/*0010*/    LDG.E.128 R8, desc[UR4][R2.64+0x10] ;\n\
        \t/*0020*/    FADD R1, R5, R9 ;\n\
        \t/*0030*/    LDG.E.U16 R12, desc[UR4][R2.64] ;\n\
        \t/*0040*/    @!P0 STG.E.64 desc[UR4][R2.64], R12 ;\n\
        \t.section\t.text.Two,\"ax\"\n\
        \t/*0000*/    @P1 LDG.E R4, desc[UR4][R2.64] ;\n\
        \t/*0010*/    STL [R1], R4 ;\n\
        \t//----- nvinfo : EIATTR_REGCOUNT\n\
        \t/*0004*/ \t.word\tindex@(Two)\n\
        \t/*0008*/ \t.word\t0x00000024\n\
        \t//----- nvinfo : EIATTR_FRAME_SIZE\n";
    let all = accesses(text);
    let one = Accesses {
        load: 128,
        store: 64,
        in_flight: 2,
        ..Accesses::default()
    };
    let two = Accesses {
        load: 32,
        store: 0,
        in_flight: 1,
        local: 1,
        registers: 36,
        ..Accesses::default()
    };
    assert_eq!((&all["One"], &all["Two"]), (&one, &two));
}
