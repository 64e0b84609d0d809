/**
 * The Python program of the CUDA probe. Node cannot call the driver without an addon, and most images of GPU workers contain Python.
 *
 * ```
 *   libcuda.so.1 --> cuInit --> count the GPUs --> for each GPU
 *                                                    init:     take its context
 *                                                    compute:  3 rounds of (fill 32 MiB, copy 32 MiB) x 8, read back, compare
 * ```
 *
 * It uses only the driver, no toolkit and no Python package, and compiles nothing on the GPU. Before each step it writes the step to standard
 * output, one JSON value per line, so that the probe can report where it hung or crashed.
 */

/** The program. It writes one JSON object per line, which `CudaProbe` decodes. */
export const CUDA_PROGRAM = String.raw`
import json, sys

def emit(**line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()

try:
    import ctypes, struct, time
except ImportError as error:
    emit(unavailable=str(error))
    sys.exit(0)

SIZE = 32 << 20
PATTERN = 0x5AA5C33C
part = "init"
where = ""

class Failed(Exception):
    pass

def at(step):
    emit(at=where + step, part=part)

def call(name, *args):
    at(name)
    try:
        function = getattr(cuda, name)
    except AttributeError:
        raise Failed(where + "libcuda.so.1 has no " + name)
    code = function(*args)
    if code != 0:
        text = ctypes.c_char_p()
        try:
            cuda.cuGetErrorName(code, ctypes.byref(text))
        except AttributeError:
            pass
        raise Failed("%s%s failed with %s (%d)" % (where, name, (text.value or b"an unknown error").decode(), code))

def allocate():
    pointer = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(SIZE))
    return pointer

def compute():
    source, target = allocate(), allocate()
    best = None
    for _ in range(3):
        start = time.monotonic()
        for _ in range(8):
            call("cuMemsetD32_v2", source, ctypes.c_uint(PATTERN), ctypes.c_size_t(SIZE // 4))
            call("cuMemcpyDtoD_v2", target, source, ctypes.c_size_t(SIZE))
        call("cuCtxSynchronize")
        elapsed = (time.monotonic() - start) * 1000
        best = elapsed if best is None else min(best, elapsed)
    host = ctypes.create_string_buffer(SIZE)
    call("cuMemcpyDtoH_v2", host, target, ctypes.c_size_t(SIZE))
    if host.raw != struct.pack("=I", PATTERN) * (SIZE // 4):
        raise Failed(where + "memory has wrong contents after a fill and a copy")
    call("cuMemFree_v2", source)
    call("cuMemFree_v2", target)
    return best

try:
    at("libcuda.so.1")
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Failed("libcuda.so.1 cannot be loaded: %s" % error)
    call("cuInit", ctypes.c_uint(0))
    count = ctypes.c_int()
    call("cuDeviceGetCount", ctypes.byref(count))
    if count.value < 1:
        raise Failed("CUDA finds no GPU")
    devices = []
    for index in range(count.value):
        part = "init"
        where = "GPU %d: " % index
        device, name, context = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_void_p()
        call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(index))
        call("cuDeviceGetName", name, ctypes.c_int(256), device)
        where = "GPU %d (%s): " % (index, name.value.decode(errors="replace"))
        call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        call("cuCtxSetCurrent", context)
        part = "compute"
        devices.append({"name": name.value.decode(errors="replace"), "ms": compute()})
    emit(devices=devices)
except Failed as failure:
    emit(failed=str(failure), part=part)
`
