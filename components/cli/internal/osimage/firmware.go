package osimage

import (
	"bytes"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	pageSize    = 0x1000
	extendChunk = 0x100
	// maxSections and maxPages bound the hashing for one firmware file: real ones have a few
	// sections of some MiB.
	maxSections = 64
	maxPages    = 64 << 20 / pageSize
)

// Attributes and types of the sections of a TDVF, by Intel's TDVF design guide.
const (
	attributeExtend = 1 << 0
	attributeAugs   = 1 << 1
	sectionHOB      = 2
	sectionTempMem  = 3
)

// Identifiers of OVMF's table at the end of the firmware, as bytes of a GUID.
var (
	tableFooter    = guid(0x96b582de, 0x1fb2, 0x45f7, "\xba\xea\xa3\x66\xc5\x5a\x08\x2d")
	metadataOffset = guid(0xe47a6535, 0x984a, 0x4798, "\x86\x5e\x46\x85\xa7\xbf\x8e\xc2")
)

func guid(a uint32, b, c uint16, rest string) []byte {
	out := binary.LittleEndian.AppendUint32(nil, a)
	out = binary.LittleEndian.AppendUint16(out, b)
	return append(binary.LittleEndian.AppendUint16(out, c), rest...)
}

// section is one part of a TDVF. Its fields have the order of the metadata.
type section struct {
	DataOffset, RawSize uint32
	Address, Size       uint64
	Type, Attributes    uint32
}

// firmware is a TDVF with its sections.
type firmware struct {
	data     []byte
	sections []section
}

// parseFirmware finds the TDVF metadata of an OVMF image.
func parseFirmware(data []byte) (firmware, error) {
	f := firmware{data: data}
	offset, err := f.metadata()
	if err != nil {
		return f, err
	}
	head := data[len(data)-offset:]
	if len(head) < 16 || string(head[:4]) != "TDVF" || binary.LittleEndian.Uint32(head[8:]) != 1 {
		return f, errors.New("its TDVF descriptor is missing or is not of version 1: it is no firmware for TDX")
	}
	count := binary.LittleEndian.Uint32(head[12:])
	if count == 0 || count > maxSections || len(head) < 16+int(count)*32 {
		return f, fmt.Errorf("its TDVF descriptor names %d sections", count)
	}
	f.sections = make([]section, count)
	if err := binary.Read(bytes.NewReader(head[16:]), binary.LittleEndian, f.sections); err != nil {
		return f, err
	}
	for i, s := range f.sections {
		switch {
		case s.Address%pageSize != 0 || s.Size%pageSize != 0 || s.Size/pageSize > maxPages || s.Address > 1<<40:
			return f, fmt.Errorf("section %d lies at %#x with %#x bytes: want whole pages", i, s.Address, s.Size)
		case s.Attributes&attributeExtend != 0 && uint64(s.DataOffset)+s.Size > uint64(len(data)):
			return f, fmt.Errorf("section %d is measured and goes beyond the end of the file", i)
		}
	}
	return f, nil
}

// metadata is how far before the end of the file the TDVF descriptor begins. OVMF keeps a table before its last
// 32 bytes, read from the end: each entry is data, a length of all three, and a GUID.
func (f firmware) metadata() (int, error) {
	const tail, foot = 32, 18
	end := len(f.data) - tail
	if end < foot || !bytes.Equal(f.data[end-16:end], tableFooter) {
		return 0, errors.New("it does not end with OVMF's table")
	}
	length := int(binary.LittleEndian.Uint16(f.data[end-foot:]))
	if length < foot || length > end {
		return 0, errors.New("OVMF's table at its end has no sound length")
	}
	table := f.data[end-length : end-foot]
	for len(table) >= foot {
		size := int(binary.LittleEndian.Uint16(table[len(table)-foot:]))
		if size < foot || size > len(table) {
			break
		}
		if bytes.Equal(table[len(table)-16:], metadataOffset) {
			if size < foot+4 {
				break
			}
			offset := binary.LittleEndian.Uint32(table[len(table)-foot-4:])
			if offset == 0 || uint64(offset) > uint64(len(f.data)) {
				return 0, errors.New("the offset of its TDVF descriptor is beyond the file")
			}
			return int(offset), nil
		}
		table = table[:len(table)-size]
	}
	return 0, errors.New("OVMF's table has no entry for TDVF: it is no firmware for TDX")
}

// mrtd is the TDX module's measurement while QEMU builds the TD. The pages of each section are
// added; the pages of a measured section are extended, either page by page or after all pages of
// the section were added.
func (f firmware) mrtd(twoPasses bool) []byte {
	h := sha512.New384()
	record := func(name string, address uint64) {
		var buf [128]byte
		copy(buf[:], name)
		binary.LittleEndian.PutUint64(buf[16:], address)
		h.Write(buf[:])
	}
	add := func(s section, at uint64) {
		if s.Attributes&attributeAugs == 0 {
			record("MEM.PAGE.ADD", s.Address+at)
		}
	}
	extend := func(s section, at uint64) {
		if s.Attributes&attributeExtend == 0 {
			return
		}
		for chunk := at; chunk < at+pageSize; chunk += extendChunk {
			record("MR.EXTEND", s.Address+chunk)
			from := uint64(s.DataOffset) + chunk
			h.Write(f.data[from : from+extendChunk])
		}
	}
	for _, s := range f.sections {
		for at := uint64(0); at < s.Size; at += pageSize {
			if add(s, at); !twoPasses {
				extend(s, at)
			}
		}
		for at := uint64(0); twoPasses && at < s.Size; at += pageSize {
			extend(s, at)
		}
	}
	return h.Sum(nil)
}

// hob is the list of memory that QEMU passes to the firmware of a VM: the memory of the firmware's
// own sections is accepted, the other memory is not yet accepted.
func (f firmware) hob(memory uint64) ([]byte, error) {
	const accepted, unaccepted = 0, 7
	var own []section
	base := uint64(0)
	for _, s := range f.sections {
		if s.Type == sectionHOB || s.Type == sectionTempMem {
			own = append(own, s)
		}
		if s.Type == sectionHOB {
			base = s.Address
		}
	}
	if base == 0 {
		return nil, errors.New("its TDVF metadata has no section for the TD HOB")
	}
	slices.SortFunc(own, func(a, b section) int { return int(int64(a.Address) - int64(b.Address)) })
	out := make([]byte, 56)
	out[0], out[2], out[8] = 1, 56, 9
	resource := func(kind uint32, start, length uint64) {
		one := make([]byte, 48)
		one[0], one[2] = 3, 48
		binary.LittleEndian.PutUint32(one[24:], kind)
		binary.LittleEndian.PutUint32(one[28:], 7)
		binary.LittleEndian.PutUint64(one[32:], start)
		binary.LittleEndian.PutUint64(one[40:], length)
		out = append(out, one...)
	}
	at := uint64(0)
	for _, s := range own {
		if s.Address < at || s.Address+s.Size > min(memory, lowEnd) {
			return nil, fmt.Errorf("its TDVF sections overlap at %#x, or do not fit into %d bytes of memory", s.Address, memory)
		}
		if s.Address > at {
			resource(unaccepted, at, s.Address-at)
		}
		resource(accepted, s.Address, s.Size)
		at = s.Address + s.Size
	}
	// From highMemory on QEMU leaves a hole below 4 GiB.
	if memory < highMemory {
		resource(unaccepted, at, memory-at)
	} else {
		resource(unaccepted, at, lowEnd-at)
		resource(unaccepted, 4<<30, memory-lowEnd)
	}
	binary.LittleEndian.PutUint64(out[48:], base+uint64(len(out))+8)
	return out, nil
}
