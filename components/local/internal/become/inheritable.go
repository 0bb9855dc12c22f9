package become

import (
	"fmt"
	"syscall"
	"unsafe"
)

const capabilityVersion3 = 0x20080522

// clearInheritable empties the thread's inheritable set: with exec root would get it back, despite
// the bounding set.
func clearInheritable() error {
	header := struct {
		version uint32
		pid     int32
	}{version: capabilityVersion3}
	var data [2]struct{ effective, permitted, inheritable uint32 }
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 { //nolint:gosec // the kernel's own form
		return fmt.Errorf("read capabilities: %w", errno)
	}
	data[0].inheritable, data[1].inheritable = 0, 0
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 { //nolint:gosec // as above
		return fmt.Errorf("clear inheritable capabilities: %w", errno)
	}
	return nil
}
