package osimage

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of the files of a release; real ones have a tenth of it.
const (
	maxText     = 1 << 20
	maxFirmware = 64 << 20
	maxProgram  = 1 << 30
)

// Release is the content of a release folder.
type Release struct {
	Version string
	// ImageHash is os_image_hash: the SHA-256 of sha256sum.txt; empty where the folder has none.
	ImageHash string
	// Dev: the image lets its operator in.
	Dev bool

	firmware firmware
	kernel   []byte
	initrd   digest
	size     int64 // of the initrd
	line     digest
}

// Open reads a release folder and checks its files against sha256sum.txt.
func Open(dir string) (*Release, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // only read
	raw, err := read(root, "metadata.json", maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no metadata.json: name the folder that a dstack release unpacks to", dir)
	}
	if err != nil {
		return nil, err
	}
	var meta struct {
		Bios, Kernel, Initrd, Cmdline, Version string

		Dev     bool   `json:"is_dev"`
		Variant string `json:"ovmf_variant"`
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return nil, fmt.Errorf("metadata.json: %w", err)
	}
	for field, value := range map[string]string{"bios": meta.Bios, "kernel": meta.Kernel, "initrd": meta.Initrd, "cmdline": meta.Cmdline} {
		if strings.TrimSpace(value) == "" {
			return nil, fmt.Errorf("metadata.json: %s is missing: a release without it is not for QEMU's direct boot", field)
		}
	}
	if meta.Variant != "" && meta.Variant != "pre202505" {
		return nil, fmt.Errorf("metadata.json: ovmf_variant is %.40q, whose boot log Cadre does not know: use dstack-mr of that release", meta.Variant)
	}
	r := &Release{Version: meta.Version, Dev: meta.Dev, line: commandLine(meta.Cmdline)}
	bios, err := read(root, meta.Bios, maxFirmware)
	if err != nil {
		return nil, err
	}
	if r.firmware, err = parseFirmware(bios); err != nil {
		return nil, fmt.Errorf("%s: %w", meta.Bios, err)
	}
	if r.kernel, err = read(root, meta.Kernel, maxProgram); err != nil {
		return nil, err
	}
	initrd, err := read(root, meta.Initrd, maxProgram)
	if err != nil {
		return nil, err
	}
	r.initrd, r.size = sha512.Sum384(initrd), int64(len(initrd))
	sums, err := read(root, "sha256sum.txt", maxText)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(sums)
	r.ImageHash = hex.EncodeToString(hash[:])
	return r, checkSums(sums, map[string][]byte{"metadata.json": raw, meta.Bios: bios, meta.Kernel: r.kernel, meta.Initrd: initrd})
}

func read(root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return raw, err
}

// checkSums compares files with the list that os_image_hash is of.
func checkSums(list []byte, files map[string][]byte) error {
	listed := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		if sum, name, ok := strings.Cut(lines.Text(), " "); ok {
			listed[strings.TrimPrefix(strings.TrimLeft(name, " *"), "./")] = sum
		}
	}
	for name, content := range files {
		sum := sha256.Sum256(content)
		switch listed[name] {
		case hex.EncodeToString(sum[:]):
		case "":
			return fmt.Errorf("sha256sum.txt does not list %s: its os_image_hash says nothing of that file", name)
		default:
			return fmt.Errorf("%s is not the file that sha256sum.txt lists: unpack the release again", name)
		}
	}
	return nil
}

// Shape has the properties of a VM that change registers.
type Shape struct {
	// Memory in bytes.
	Memory uint64
	// QEMU is the host's version, such as 8.2.2. Up to 8 it adds the pages of the firmware in two passes.
	QEMU string
	// SinglePass overrides that; nil: by QEMU.
	SinglePass *bool
	// Tables are the ACPI digests; nil: RTMR0 stays empty.
	Tables *ACPI
}

// Measured are registers in lower-case hex, as a trust file has them. RTMR0 may be empty.
type Measured struct {
	MRTD  string `json:"mrtd"`
	RTMR0 string `json:"rtmr0"`
	RTMR1 string `json:"rtmr1"`
	RTMR2 string `json:"rtmr2"`
}

// Measure computes the registers of a VM.
func (r *Release) Measure(s Shape) (Measured, error) {
	major, _, dotted := strings.Cut(s.QEMU, ".")
	version, err := strconv.Atoi(major)
	if err != nil || !dotted || version < 8 {
		return Measured{}, fmt.Errorf("QEMU %q: give the host's version, 8.0.0 or newer, such as 8.2.2", s.QEMU)
	}
	twoPasses := version < 9
	if s.SinglePass != nil {
		twoPasses = !*s.SinglePass
	}
	kernel, err := patched(r.kernel, r.size, s.Memory)
	if err == nil {
		kernel, err = authenticode(kernel)
	}
	if err != nil {
		return Measured{}, fmt.Errorf("kernel: %w", err)
	}
	out := Measured{
		MRTD: hex.EncodeToString(r.firmware.mrtd(twoPasses)), RTMR1: rtmr1(digest(kernel)), RTMR2: rtmr2(r.line, r.initrd),
	}
	if s.Tables == nil {
		return out, nil
	}
	hob, err := r.firmware.hob(s.Memory)
	if err != nil {
		return Measured{}, fmt.Errorf("firmware: %w", err)
	}
	out.RTMR0 = rtmr0(hob, *s.Tables)
	return out, nil
}
