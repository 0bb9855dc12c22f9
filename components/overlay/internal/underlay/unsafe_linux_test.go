package underlay

import "unsafe"

// ptr is where b's bytes are.
func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }
