package osimage

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sections are the sections of dstack's firmware, as far as they shape the TD HOB; the digests
// below are of real boot logs.
var sections = []section{
	{Address: 0x810000, Size: 0x10000, Type: sectionTempMem}, {Address: 0x80b000, Size: 0x2000, Type: sectionTempMem},
	{Address: 0x809000, Size: 0x2000, Type: sectionHOB}, {Address: 0x800000, Size: 0x6000, Type: sectionTempMem},
}

// TestTheMemoryListIsThatOfRealBootLogs: of a VM of 2 GiB (dstack 0.6, tdx-lite fixture of dstack's verifier) and of
// one of 64 GiB (quote-report fixture).
func TestTheMemoryListIsThatOfRealBootLogs(t *testing.T) {
	for memory, want := range map[uint64]string{
		2 << 30:  "0b8772e5b0b41b83e6044a68397e02f49fb47066b4fbe4917ea2c45c64f323fdacbb37948f821ebaf8bc9c938ba8a749",
		64 << 30: "8ae1e425351df7992c444586eff99d35af3b779aa2b0e981cb4b73bc5b279f2ade19b6a62a203fc3c3bbdaae80af596d",
	} {
		hob, err := firmware{sections: sections}.hob(memory)
		if sum := sha512.Sum384(hob); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%d GiB: %x, %v", memory>>30, sum, err)
		}
	}
}

// TestRegistersAreThoseOfARealQuote: each register from the events of a real boot log.
func TestRegistersAreThoseOfARealQuote(t *testing.T) {
	raw, err := os.ReadFile("../../../attest/testdata/dstack-quote-report.json")
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Quote string `json:"quote"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatal(err)
	}
	quote, err := hex.DecodeString(answer.Quote)
	if err != nil {
		t.Fatal(err)
	}
	register := func(n int) string { return hex.EncodeToString(quote[376+48*n : 424+48*n]) }
	e, err := ReadEvidence(raw)
	if err != nil || e.QEMU != "9.2.1" || e.Memory != 64<<30 || e.SinglePass == nil || *e.SinglePass {
		t.Fatalf("%+v, %v", e, err)
	}
	hob, err := firmware{sections: sections}.hob(e.Memory)
	if got := rtmr0(hob, e.Tables); err != nil || got != register(0) {
		t.Errorf("RTMR0 %s, %v", got, err)
	}
	kernel := known48("0761fbfa317a42d8edbe9e404178d102adc059cface98c5e07d1d535371c145c3497fd2a19b8398568b8c8a6f95e0a86")
	if got := rtmr1(kernel); got != register(1) {
		t.Errorf("RTMR1 %s", got)
	}
	line := known48("4027cb4ec64dbc24b6d98d9470daeefc749bbb6a9b011762d215f6ed3eb833d58fd72d9ad850958f72878182e6f61924")
	initrd := known48("63e06e29cf98f2fce71abd3a9629dff48457b47c010b64e11f7a2b42dd99bfa14ee35660b3f5d3fc376261d6ba9a6d6b")
	if got := rtmr2(line, initrd); got != register(2) {
		t.Errorf("RTMR2 %s", got)
	}
}

// build is a TDVF whose first page is measured and whose second holds the TD HOB.
func build() []byte {
	data := make([]byte, 4*pageSize)
	for i := range pageSize {
		data[i] = byte(i / extendChunk)
	}
	descriptor := []byte("TDVF")
	for _, v := range []uint32{80, 1, 2} {
		descriptor = binary.LittleEndian.AppendUint32(descriptor, v)
	}
	list := bytes.NewBuffer(descriptor)
	_ = binary.Write(list, binary.LittleEndian, []section{
		{DataOffset: 0, RawSize: pageSize, Address: 0xfff000, Size: 2 * pageSize, Attributes: attributeExtend},
		{Address: 0x809000, Size: pageSize, Type: sectionHOB},
	})
	copy(data[3*pageSize:], list.Bytes())
	entry := binary.LittleEndian.AppendUint32(nil, pageSize)
	entry = append(binary.LittleEndian.AppendUint16(entry, 22), metadataOffset...)
	table := append(entry, binary.LittleEndian.AppendUint16(nil, uint16(len(entry)+18))...)
	table = append(table, tableFooter...)
	copy(data[len(data)-32-len(table):], table)
	return data
}

func TestMRTDFollowsTheOrderOfTheTDXModule(t *testing.T) {
	f, err := parseFirmware(build())
	if err != nil {
		t.Fatal(err)
	}
	var add, extend [2][]byte
	head := func(name string, at uint64) []byte {
		return append(append(append([]byte(name), make([]byte, 16-len(name))...), binary.LittleEndian.AppendUint64(nil, at)...), make([]byte, 104)...)
	}
	for page := range 2 {
		at := uint64(0xfff000 + page*pageSize)
		add[page] = head("MEM.PAGE.ADD", at)
		for c := 0; c < pageSize; c += extendChunk {
			extend[page] = append(append(extend[page], head("MR.EXTEND", at+uint64(c))...), f.data[page*pageSize+c:page*pageSize+c+extendChunk]...)
		}
	}
	hob := head("MEM.PAGE.ADD", 0x809000)
	for twoPasses, parts := range map[bool][][]byte{
		false: {add[0], extend[0], add[1], extend[1], hob}, true: {add[0], add[1], extend[0], extend[1], hob},
	} {
		if want := sha512.Sum384(bytes.Join(parts, nil)); !bytes.Equal(f.mrtd(twoPasses), want[:]) {
			t.Errorf("two passes %t: another MRTD", twoPasses)
		}
	}
}

// program is a PE program with a setup header of Linux, two sections in the other order, and certificates at its end.
func program() []byte {
	pe := make([]byte, 0x2018)
	for i := range pe {
		pe[i] = byte(i % 251)
	}
	clear(pe[0x1e0:0x240])
	copy(pe[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(pe[0x206:], 0x20f)
	pe[0x211], pe[0x236] = 1, 0x40
	const start = 0x300
	binary.LittleEndian.PutUint32(pe[0x3c:], start)
	clear(pe[start : start+0x200])
	copy(pe[start:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(pe[start+6:], 2)
	binary.LittleEndian.PutUint16(pe[start+20:], 240)
	optional := start + 24
	binary.LittleEndian.PutUint16(pe[optional:], 0x20b)
	binary.LittleEndian.PutUint32(pe[optional+60:], 0x1000)
	binary.LittleEndian.PutUint32(pe[optional+64:], 0xdeadbeef)
	binary.LittleEndian.PutUint32(pe[optional+144:], 0x2000)
	binary.LittleEndian.PutUint32(pe[optional+148:], 0x10)
	for i, at := range []uint32{0x1800, 0x1000} {
		row := pe[optional+240+40*i:]
		binary.LittleEndian.PutUint32(row[16:], 0x800)
		binary.LittleEndian.PutUint32(row[20:], at)
	}
	return pe
}

func TestTheKernelsDigestLeavesOutChecksumAndCertificates(t *testing.T) {
	pe := program()
	const optional = 0x318
	want := sha512.New384()
	want.Write(pe[:optional+64])
	want.Write(pe[optional+68 : optional+144])
	want.Write(pe[optional+152 : 0x2008]) // headers, both sections, and everything that is no certificate
	got, err := authenticode(pe)
	if err != nil || !bytes.Equal(got, want.Sum(nil)) {
		t.Errorf("%x, %v", got, err)
	}
	pe[optional+64]++
	if again, _ := authenticode(pe); !bytes.Equal(again, got) {
		t.Error("the checksum is part of the digest")
	}
	pe[0x1000]++
	if again, _ := authenticode(pe); bytes.Equal(again, got) {
		t.Error("a section is no part of the digest")
	}
}

// TestTheInitrdLiesWhereQEMUPutsIt: at 2 GiB as from 2.75 GiB on, elsewhere by the memory.
func TestTheInitrdLiesWhereQEMUPutsIt(t *testing.T) {
	for memory, want := range map[uint64]uint32{
		2 << 30: 0x7fed7000, highMemory: 0x7fed7000, 64 << 30: 0x7fed7000, 1 << 30: 0x3fed7000, highMemory - 0x1000: 0xafed6000,
	} {
		k, err := patched(program(), 0x100000, memory)
		if err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint32(k[0x218:]); got != want || k[0x210] != 0xb0 || k[0x211] != 0x81 ||
			binary.LittleEndian.Uint32(k[0x21c:]) != 0x100000 || binary.LittleEndian.Uint32(k[0x224:]) != 0xfe00 || binary.LittleEndian.Uint32(k[0x228:]) != 0x20000 {
			t.Errorf("%#x of memory: initrd at %#x, want %#x", memory, got, want)
		}
	}
}

// release writes a release folder and returns it.
func release(t *testing.T, change func(files map[string][]byte)) string {
	t.Helper()
	files := map[string][]byte{
		"ovmf.fd": build(), "bzImage": program(), "initramfs.cpio.gz": []byte("initrd"),
		"metadata.json": []byte(`{"bios":"ovmf.fd","kernel":"bzImage","cmdline":"console=ttyS0 dstack.rootfs_hash=aa","initrd":"initramfs.cpio.gz","rootfs":"rootfs.img","version":"0.5.9","is_dev":true}`),
	}
	var list strings.Builder
	for _, name := range []string{"ovmf.fd", "bzImage", "initramfs.cpio.gz", "metadata.json"} {
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(files[name]), name)
	}
	files["sha256sum.txt"] = []byte(list.String())
	if change != nil {
		change(files)
	}
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAReleaseIsMeasured(t *testing.T) {
	r, err := Open(release(t, nil))
	if err != nil || r.Version != "0.5.9" || !r.Dev || len(r.ImageHash) != 64 {
		t.Fatalf("%+v, %v", r, err)
	}
	got, err := r.Measure(Shape{Memory: 2 << 30, QEMU: "8.2.2"})
	if err != nil || got.RTMR0 != "" || len(got.MRTD) != 96 || len(got.RTMR1) != 96 || len(got.RTMR2) != 96 {
		t.Fatalf("%+v, %v", got, err)
	}
	single := true
	other, err := r.Measure(Shape{Memory: 64 << 30, QEMU: "8.2.2", SinglePass: &single, Tables: &ACPI{}})
	if err != nil || other.MRTD == got.MRTD || other.RTMR0 == "" || other.RTMR1 != got.RTMR1 || other.RTMR2 != got.RTMR2 {
		t.Errorf("in one pass: %+v, %v", other, err)
	}
	if newer, err := r.Measure(Shape{Memory: 1 << 30, QEMU: "9.2.1"}); err != nil || newer.MRTD != other.MRTD || newer.RTMR1 == got.RTMR1 {
		t.Errorf("a newer QEMU, less memory: %+v, %v", newer, err)
	}
	for _, bad := range []Shape{{Memory: 2 << 30}, {Memory: 2 << 30, QEMU: "7.2.0"}, {Memory: 2 << 30, QEMU: "x.y"}, {Memory: 1 << 17, QEMU: "8.2.2"}} {
		if got, err := r.Measure(bad); err == nil {
			t.Errorf("%+v: %+v", bad, got)
		}
	}
}

func TestAReleaseThatIsNotWholeIsRefused(t *testing.T) {
	for want, change := range map[string]func(map[string][]byte){
		"has no metadata.json": func(f map[string][]byte) { delete(f, "metadata.json") },
		"kernel is missing":    func(f map[string][]byte) { f["metadata.json"] = []byte(`{"bios":"a","initrd":"b","cmdline":"c"}`) },
		"ovmf_variant": func(f map[string][]byte) {
			f["metadata.json"] = bytes.Replace(f["metadata.json"], []byte(`{`), []byte(`{"ovmf_variant":"202505",`), 1)
		},
		"escapes from parent": func(f map[string][]byte) {
			f["metadata.json"] = bytes.Replace(f["metadata.json"], []byte(`"bzImage"`), []byte(`"../x"`), 1)
		},
		"is not the file that": func(f map[string][]byte) { f["initramfs.cpio.gz"] = []byte("other") },
		"does not list bzImage": func(f map[string][]byte) {
			f["sha256sum.txt"] = bytes.Replace(f["sha256sum.txt"], []byte("  bzImage"), []byte("  other"), 1)
		},
		"does not end with OVMF's":  func(f map[string][]byte) { f["ovmf.fd"] = make([]byte, 100) },
		"no such file or directory": func(f map[string][]byte) { delete(f, "bzImage") },
	} {
		if _, err := Open(release(t, change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// TestBrokenFilesAreErrors: no cut or changed file causes a panic.
func TestBrokenFilesAreErrors(t *testing.T) {
	fw, pe := build(), program()
	for n := 0; n < len(fw); n += 7 {
		if _, err := parseFirmware(fw[:n]); err == nil {
			t.Errorf("firmware of %d bytes is taken", n)
		}
	}
	tail := fw[len(fw)-200:]
	for i := range tail {
		for _, v := range []byte{0, 0x7f, 0xff} {
			broken := slices.Clone(fw)
			broken[len(fw)-200+i] = v
			if f, err := parseFirmware(broken); err == nil {
				f.mrtd(true)
			}
		}
	}
	for at := 3 * pageSize; at < 3*pageSize+80; at++ {
		broken := slices.Clone(fw)
		broken[at] ^= 0xff
		if f, err := parseFirmware(broken); err == nil {
			f.mrtd(false)
			_, _ = f.hob(2 << 30)
		}
	}
	for n := 0; n < len(pe); n += 5 {
		_, _ = authenticode(pe[:n])
		_, _ = patched(pe[:n], 1, 2<<30)
	}
	for at := 0x3c; at < 0x500; at++ {
		broken := slices.Clone(pe)
		broken[at] = 0xff
		_, _ = authenticode(broken)
	}
	for _, raw := range []string{"", "{}", `{"event_log":"x"}`, `{"event_log":"[]"}`, `{"event_log":"[{\"imr\":0,\"event_type\":10,\"digest\":\"zz\"}]"}`, `{"event_log":"[]","vm_config":"[]"}`} {
		if _, err := ReadEvidence([]byte(raw)); err == nil {
			t.Errorf("%s is taken", raw)
		}
	}
}

// TestTheTableIsSound: whole registers, and a source for each.
func TestTheTableIsSound(t *testing.T) {
	table, err := Table()
	if err != nil || len(table) == 0 {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, k := range table {
		for _, value := range []string{k.MRTD, k.RTMR0, k.RTMR1, k.RTMR2} {
			if raw, err := hex.DecodeString(value); err != nil || len(raw) != 48 {
				t.Errorf("%s: %q is no register", k.Image, value)
			}
		}
		if k.ImageHash != "" && len(k.ImageHash) != 64 || k.Source == "" || k.VCPU == 0 || k.MemoryMB == 0 || seen[k.RTMR2] || strings.Contains(k.Image, "-dev-") != k.Dev {
			t.Errorf("%+v", k)
		}
		seen[k.RTMR2] = true
	}
}
