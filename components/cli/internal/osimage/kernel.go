package osimage

import (
	"cmp"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	// highMemory is the size from which on QEMU (q35) leaves a hole below 4 GiB, and lowEnd where that begins.
	highMemory = 0xB0000000
	lowEnd     = 0x80000000
	// acpiData is the memory below that address that QEMU keeps free for ACPI tables.
	acpiData = 0x28000
	// minKernel holds the setup header of Linux' boot protocol.
	minKernel = 0x1000
)

// patched is the kernel as QEMU's loader hands it over: it fills in the setup header (Linux' boot protocol).
func patched(kernel []byte, initrd int64, memory uint64) ([]byte, error) {
	if len(kernel) < minKernel || string(kernel[0x202:0x206]) != "HdrS" {
		return nil, errors.New("it has no setup header of Linux' boot protocol")
	}
	protocol := binary.LittleEndian.Uint16(kernel[0x206:])
	if protocol < 0x20c {
		return nil, fmt.Errorf("its boot protocol is %#x, older than 2.12", protocol)
	}
	k := slices.Clone(kernel)
	setup, cmdline := uint32(0x10000), uint32(0x20000)
	if k[0x211]&1 == 0 {
		setup, cmdline = 0x90000, 0x9a000
	}
	k[0x210] = 0xb0 // QEMU is the loader
	k[0x211] |= 0x80
	binary.LittleEndian.PutUint32(k[0x224:], cmdline-setup-0x200)
	binary.LittleEndian.PutUint32(k[0x228:], cmdline)
	low := memory
	if memory >= highMemory {
		low = lowEnd
	}
	most := uint64(0x37ffffff)
	if k[0x236]&0x40 != 0 { // its initrd may lie anywhere below 4 GiB
		most = 1<<32 - 1
	}
	if low <= acpiData {
		return nil, fmt.Errorf("%d bytes of memory are too few", memory)
	}
	if most >= low-acpiData {
		most = low - acpiData - 1
	}
	if initrd <= 0 || uint64(initrd) >= most {
		return nil, fmt.Errorf("an initrd of %d bytes does not fit into %d bytes of memory", initrd, memory)
	}
	binary.LittleEndian.PutUint32(k[0x218:], uint32(most-uint64(initrd))&^0xfff)
	binary.LittleEndian.PutUint32(k[0x21c:], uint32(initrd))
	return k, nil
}

// authenticode is the digest by which firmware measures a PE program: all of it but the checksum, the place of
// the certificates and the certificates, by sections in the order of the file.
func authenticode(pe []byte) ([]byte, error) {
	broken := errors.New("it is no sound PE program")
	u32 := func(at int) int {
		if at < 0 || at+4 > len(pe) {
			return -1
		}
		return int(binary.LittleEndian.Uint32(pe[at:]))
	}
	start := u32(0x3c)
	if start < 0 || start > len(pe)-24 || string(pe[start:start+4]) != "PE\x00\x00" {
		return nil, broken
	}
	sections, optionalSize := int(binary.LittleEndian.Uint16(pe[start+6:])), int(binary.LittleEndian.Uint16(pe[start+20:]))
	optional := start + 24
	directories := optional + 96
	if optional+2 <= len(pe) && binary.LittleEndian.Uint16(pe[optional:]) == 0x20b {
		directories = optional + 112
	}
	checksum, certificates := optional+64, directories+4*8
	headers, certificateSize := u32(optional+60), u32(certificates+4)
	if headers < certificates+8 || headers > len(pe) || certificateSize < 0 {
		return nil, broken
	}
	h := sha512.New384()
	h.Write(pe[:checksum])
	h.Write(pe[checksum+4 : certificates])
	h.Write(pe[certificates+8 : headers])
	type part struct{ at, size int }
	var parts []part
	for i := range sections {
		row := optional + optionalSize + 40*i
		p := part{u32(row + 20), u32(row + 16)}
		if p.at < 0 || p.size < 0 || p.at > len(pe) {
			return nil, broken
		}
		if p.size > 0 {
			parts = append(parts, p)
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.at, b.at) })
	hashed := headers
	for _, p := range parts {
		h.Write(pe[p.at:min(p.at+p.size, len(pe))])
		hashed += p.size
	}
	if rest := len(pe) - hashed - certificateSize; rest > 0 {
		h.Write(pe[hashed : hashed+rest])
	}
	h.Write(make([]byte, (8-len(pe)%8)%8))
	return h.Sum(nil), nil
}
