package attestsim

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"

	"cadre.dev/core/policy"
)

// defaultImages are the OS images of a Cloud whose configuration names none.
var defaultImages = []string{"dstack-0.5.4", "dstack-0.5.7", "dstack-0.5.11", "dstack-0.6.0"}

// Shape is the virtual hardware of a CVM that the firmware measures.
type Shape struct {
	VCPU     int
	MemoryMB int
}

// Shapes are the shapes that Images measures; the first one is the default of a boot.
var Shapes = []Shape{{1, 2048}, {2, 4096}, {4, 8192}}

// Images returns the measurements of the named OS images, in each of Shapes; without names, of a
// default set. Any name is an image: its measurements are derived from name and shape alone, the
// same in every Cloud. As on real hardware the shape shows in RTMR0 only.
func (c *Cloud) Images(names ...string) map[string][]policy.Measurement {
	if len(names) == 0 {
		names = defaultImages
	}
	images := make(map[string][]policy.Measurement, len(names))
	for _, name := range names {
		for _, shape := range Shapes {
			images[name] = append(images[name], imageNamed(name, shape).measurement())
		}
	}
	return images
}

// image is an invented guest OS.
type image struct {
	name   string
	shape  Shape
	mrtd   [48]byte
	rtmr   [3][48]byte
	hash   [32]byte // the os-image-hash event
	events []event  // the events of firmware and kernel, imr 0 to 2
}

// The event types of UEFI that the invented boot uses.
const (
	evSeparator      uint32 = 4
	evPlatformConfig uint32 = 10
	evEFIAction      uint32 = 0x80000007
)

func imageNamed(name string, shape Shape) image {
	img := image{
		name: name, shape: shape,
		mrtd: sha512.Sum384([]byte("cadre simulated image\x00mrtd\x00" + name)),
		hash: sha256.Sum256([]byte("cadre simulated image\x00hash\x00" + name)),
	}
	for imr := range img.rtmr {
		for i, kind := range []uint32{evEFIAction, evSeparator} {
			payload := fmt.Appendf(nil, "cadre simulated image\x00rtmr%d event %d\x00%s", imr, i, name)
			img.events = append(img.events, event{IMR: imr, Type: kind, Payload: payload, Digest: sha512.Sum384(payload)})
		}
	}
	// The tables in which firmware finds processors and memory.
	tables := fmt.Appendf(nil, "cadre simulated image\x00acpi\x00%s\x00%d\x00%d", name, shape.VCPU, shape.MemoryMB)
	img.events = append(img.events, event{IMR: 0, Type: evPlatformConfig, Payload: tables, Digest: sha512.Sum384(tables)})
	for _, ev := range img.events {
		img.rtmr[ev.IMR] = extend(img.rtmr[ev.IMR], ev.Digest)
	}
	return img
}

func (i image) measurement() policy.Measurement {
	return policy.Measurement{
		MRTD:  hex.EncodeToString(i.mrtd[:]),
		RTMR0: hex.EncodeToString(i.rtmr[0][:]),
		RTMR1: hex.EncodeToString(i.rtmr[1][:]),
		RTMR2: hex.EncodeToString(i.rtmr[2][:]),
	}
}

func extend(register, digest [48]byte) [48]byte {
	return sha512.Sum384(append(register[:], digest[:]...))
}
