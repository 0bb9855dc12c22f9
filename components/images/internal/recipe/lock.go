package recipe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// maxLock bounds locks, in bytes.
	maxLock = 1 << 20
	// maxInput bounds one locked file, in bytes.
	maxInput = 1 << 30
)

// Lock is the resolution of a recipe's packages: everything by its digest.
type Lock struct {
	// File is where the lock was read, for messages.
	File string
	// Time is the age of the lock: every file of the layer has it as its time, and
	// snapshot.debian.org knows the archive as it was then.
	Time     time.Time
	Debs     []Deb
	Wheels   []Wheel
	Jars     []Jar
	Programs []Binary
}

// Blob is a file by its digest.
type Blob struct {
	// SHA256 is in hex.
	SHA256 string
	// Size is in bytes.
	Size int64
	// Line is where the lock names it.
	Line int
}

// Deb is a Debian package.
type Deb struct {
	Name, Version string
	Blob
	// Path is relative to the root of mirrors of Debian: "debian/pool/…" or
	// "debian-security/pool/…".
	Path string
}

// Archive is the mirror's folder, "debian" or "debian-security", and Below the path in it.
func (d Deb) Archive() (archive, below string) {
	archive, below, _ = strings.Cut(d.Path, "/")
	return archive, below
}

// Wheel is a Python package. Its name is a Normal one.
type Wheel struct {
	Name, Version string
	Blob
	// File is its name at the index: "patroni-4.1.0-py3-none-any.whl".
	File string
}

// Jar is a Java archive; Name is group:artifact.
type Jar struct {
	Name, Version string
	Blob
}

// JarFolder is the image's folder of Jars.
const JarFolder = "usr/share/java"

// File is the archive's name: "kafka-clients-4.4.0.jar".
func (j Jar) File() string {
	_, artifact, _ := strings.Cut(j.Name, ":")
	return artifact + "-" + j.Version + ".jar"
}

// Path is relative to the root of a Maven repository.
func (j Jar) Path() string {
	group, artifact, _ := strings.Cut(j.Name, ":")
	return path.Join(strings.ReplaceAll(group, ".", "/"), artifact, j.Version, j.File())
}

// NewJar reads group:artifact:version, whose form was checked.
func NewJar(text string) Jar {
	at := strings.LastIndexByte(text, ':')
	return Jar{Name: text[:at], Version: text[at+1:]}
}

// Jar finds group:artifact:version in the lock.
func (l Lock) Jar(text string) (Jar, bool) {
	want := NewJar(text)
	i := slices.IndexFunc(l.Jars, func(j Jar) bool { return j.Name == want.Name && j.Version == want.Version })
	if i < 0 {
		return Jar{}, false
	}
	return l.Jars[i], true
}

// Binary is a Go program of others, as the toolchain of that name makes it.
type Binary struct {
	Name, Toolchain string
	Blob
}

// Archives are the folders of a mirror that locks may name.
var Archives = []string{"debian", "debian-security"}

var (
	digestForm  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	debName     = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	versionForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.+~:!_-]*$`)
	wheelFile   = regexp.MustCompile(`^[A-Za-z0-9._+!-]+\.whl$`)
	separators  = regexp.MustCompile(`[-_.]+`)
)

// Normal is a Python package's name as indexes write it.
func Normal(name string) string {
	return strings.ToLower(separators.ReplaceAllString(name, "-"))
}

// ReadLock reads a lock; a recipe without one has an empty lock.
func ReadLock(name string) (Lock, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Lock{}, nil
	}
	if err != nil {
		return Lock{}, fmt.Errorf("read lock: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return Lock{}, fmt.Errorf("read lock: %w", err)
	}
	if info.Size() > maxLock {
		return Lock{}, fmt.Errorf("%s: larger than %d bytes", name, maxLock)
	}
	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil && info.Size() > 0 {
		return Lock{}, fmt.Errorf("read lock: %w", err)
	}
	return ParseLock(filepath.Base(name), data)
}

// ParseLock reads the lines of a lock and reports everything that is wrong with them, each
// problem with its line.
func ParseLock(name string, data []byte) (Lock, error) {
	l := Lock{File: name}
	var errs []error
	seen := map[string]int{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Fields(text)
		err := l.line(fields, n)
		if err == nil && len(fields) > 1 {
			key := fields[0] + " " + fields[1]
			if first, ok := seen[key]; ok {
				err = fmt.Errorf("%s is on line %d already", key, first)
			}
			seen[key] = n
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
		}
	}
	if err := lines.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", name, err))
	}
	if l.Time.IsZero() {
		errs = append(errs, fmt.Errorf("%s: no line gives its time", name))
	}
	return l, errors.Join(errs...)
}

func (l *Lock) line(f []string, n int) error {
	forms := map[string]string{
		"time": "time <RFC 3339>", "deb": "deb <name> <version> <sha256> <size> <path>",
		"wheel": "wheel <name> <version> <sha256> <size> <file>", "program": "program <name> <toolchain> <sha256> <size>",
		"jar": "jar <group:artifact> <version> <sha256> <size>",
	}
	form, ok := forms[f[0]]
	if !ok {
		return fmt.Errorf("a line begins with deb, jar, program, time or wheel, not %q", f[0])
	}
	if want := len(strings.Fields(strings.ReplaceAll(form, "RFC ", "RFC"))); len(f) != want {
		return fmt.Errorf("%d fields, want %d: %s", len(f), want, form)
	}
	if f[0] == "time" {
		at, err := time.Parse(time.RFC3339, f[1])
		if err != nil || at.Location() != time.UTC || at.Year() < 2000 {
			return fmt.Errorf("%q is no time such as 2026-01-31T00:00:00Z", f[1])
		}
		l.Time = at
		return nil
	}
	blob, err := parseBlob(f[3], f[4], n)
	if err != nil {
		return err
	}
	switch f[0] {
	case "deb":
		d := Deb{Name: f[1], Version: f[2], Blob: blob, Path: f[5]}
		archive, below := d.Archive()
		switch {
		case !debName.MatchString(d.Name):
			return fmt.Errorf("%q is no name of a package", d.Name)
		case !versionForm.MatchString(d.Version):
			return fmt.Errorf("%q is no version", d.Version)
		case !slices.Contains(Archives, archive) || !strings.HasPrefix(below, "pool/") || path.Clean(d.Path) != d.Path || !strings.HasSuffix(below, ".deb"):
			return fmt.Errorf("%q is no path such as debian/pool/main/d/dash/dash_1_amd64.deb", d.Path)
		}
		l.Debs = append(l.Debs, d)
	case "wheel":
		w := Wheel{Name: f[1], Version: f[2], Blob: blob, File: f[5]}
		switch {
		case w.Name != Normal(w.Name) || !debName.MatchString(w.Name):
			return fmt.Errorf("%q is no name as indexes write it; use %q", w.Name, Normal(w.Name))
		case !versionForm.MatchString(w.Version):
			return fmt.Errorf("%q is no version", w.Version)
		case !wheelFile.MatchString(w.File):
			return fmt.Errorf("%q is no name of a wheel", w.File)
		}
		l.Wheels = append(l.Wheels, w)
	case "jar":
		if !jarForm.MatchString(f[1] + ":" + f[2]) {
			return fmt.Errorf("%q %q is no jar such as org.slf4j:slf4j-api 1.7.36", f[1], f[2])
		}
		l.Jars = append(l.Jars, Jar{Name: f[1], Version: f[2], Blob: blob})
	case "program":
		if !nameForm.MatchString(f[1]) || !toolchainForm.MatchString(f[2]) {
			return fmt.Errorf("%q built by %q is no program", f[1], f[2])
		}
		l.Programs = append(l.Programs, Binary{Name: f[1], Toolchain: f[2], Blob: blob})
	}
	return nil
}

func parseBlob(digest, size string, line int) (Blob, error) {
	if !digestForm.MatchString(digest) {
		return Blob{}, fmt.Errorf("%q is no SHA-256 in lower-case hex", digest)
	}
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || n < 1 || n > maxInput {
		return Blob{}, fmt.Errorf("%q is no size between 1 and %d bytes", size, maxInput)
	}
	return Blob{SHA256: digest, Size: n, Line: line}, nil
}

// Format writes the lock as ParseLock reads it, sorted.
func (l Lock) Format() []byte {
	var b bytes.Buffer
	b.WriteString("# Made by make images-lock. Everything by its SHA-256; paths are relative to any mirror.\n")
	fmt.Fprintf(&b, "time %s\n", l.Time.UTC().Format(time.RFC3339))
	var lines []string
	for _, d := range l.Debs {
		lines = append(lines, fmt.Sprintf("deb %s %s %s %d %s\n", d.Name, d.Version, d.SHA256, d.Size, d.Path))
	}
	for _, w := range l.Wheels {
		lines = append(lines, fmt.Sprintf("wheel %s %s %s %d %s\n", w.Name, w.Version, w.SHA256, w.Size, w.File))
	}
	for _, j := range l.Jars {
		lines = append(lines, fmt.Sprintf("jar %s %s %s %d\n", j.Name, j.Version, j.SHA256, j.Size))
	}
	for _, p := range l.Programs {
		lines = append(lines, fmt.Sprintf("program %s %s %s %d\n", p.Name, p.Toolchain, p.SHA256, p.Size))
	}
	slices.Sort(lines)
	b.WriteString(strings.Join(lines, ""))
	return b.Bytes()
}

// Empty reports whether the lock names nothing.
func (l Lock) Empty() bool { return len(l.Debs)+len(l.Wheels)+len(l.Jars)+len(l.Programs) == 0 }
