package vmm

import (
	"fmt"
	"regexp"
	"strconv"

	"cadre.dev/platform"
)

// size is the hardware that an instance type names.
type size struct {
	vcpu, memoryMB uint32
	gpus           int  // attached one by one
	allGPUs        bool // every GPU and switch of the host
}

// instanceTypes are the names of sizes without GPUs. A VMM knows none of them. They are those of
// Phala Cloud, so that one spec fits both platforms.
var instanceTypes = []struct {
	name string
	size size
}{
	{"tdx.small", size{vcpu: 1, memoryMB: 2 << 10}},
	{"tdx.medium", size{vcpu: 2, memoryMB: 4 << 10}},
	{"tdx.large", size{vcpu: 4, memoryMB: 8 << 10}},
	{"tdx.xlarge", size{vcpu: 8, memoryMB: 16 << 10}},
	{"tdx.2xlarge", size{vcpu: 16, memoryMB: 32 << 10}},
	{"tdx.4xlarge", size{vcpu: 32, memoryMB: 64 << 10}},
	{"tdx.8xlarge", size{vcpu: 64, memoryMB: 128 << 10}},
}

// sizeForm is "<vCPUs>x<MB>" with an optional "+<n>gpu" or "+allgpu", without leading zeros: one size
// has one name.
var sizeForm = regexp.MustCompile(`^([1-9][0-9]{0,3})x([1-9][0-9]{0,7})(\+([1-9][0-9]?|all)gpu)?$`)

// minMemoryMB is below every guest that boots; a smaller number was meant in GB.
const minMemoryMB = 512

// name is the instance type of a size; "" of an unknown size.
func (s size) name() string {
	for _, t := range instanceTypes {
		if t.size == s {
			return t.name
		}
	}
	switch {
	case s.vcpu == 0 || s.memoryMB == 0:
		return ""
	case s.allGPUs:
		return fmt.Sprintf("%dx%d+allgpu", s.vcpu, s.memoryMB)
	case s.gpus > 0:
		return fmt.Sprintf("%dx%d+%dgpu", s.vcpu, s.memoryMB, s.gpus)
	}
	return fmt.Sprintf("%dx%d", s.vcpu, s.memoryMB)
}

// sizeOf reads an instance type. The error is ErrNotOffered and ErrRefused.
func sizeOf(name string) (size, error) {
	for _, t := range instanceTypes {
		if t.name == name {
			return t.size, nil
		}
	}
	refused := func(format string, args ...any) (size, error) {
		return size{}, fmt.Errorf("instance type %.64q: %w: %w: %w", name, fmt.Errorf(format, args...), platform.ErrNotOffered, platform.ErrRefused)
	}
	m := sizeForm.FindStringSubmatch(name)
	if m == nil {
		return refused("use a name from tdx.small to tdx.8xlarge, or <vCPUs>x<MB> such as 6x12288, with +1gpu or +allgpu for GPUs")
	}
	vcpu, _ := strconv.ParseUint(m[1], 10, 32)     // digits, by the form
	memoryMB, _ := strconv.ParseUint(m[2], 10, 32) // digits, by the form
	s := size{vcpu: uint32(vcpu), memoryMB: uint32(memoryMB), allGPUs: m[4] == "all"}
	if !s.allGPUs && m[4] != "" {
		s.gpus, _ = strconv.Atoi(m[4]) // digits, by the form
	}
	switch {
	case s.memoryMB < minMemoryMB:
		return refused("the memory is in MB, at least %d", minMemoryMB)
	case s.name() != name:
		return refused("this size has the name %s: use it, as listings do", s.name())
	}
	return s, nil
}

// size is the hardware of a configuration.
func (c *configuration) size() size {
	s := size{vcpu: c.VCPU, memoryMB: c.Memory}
	if c.GPUs != nil {
		s.allGPUs = c.GPUs.AttachMode == attachAll
		if !s.allGPUs {
			s.gpus = len(c.GPUs.GPUs)
		}
	}
	return s
}
