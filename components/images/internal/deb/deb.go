package deb

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"cadre.dev/images/internal/tree"
)

// Bounds of a package, in bytes and files: packages of the distribution are far below.
const (
	maxControl = 4 << 20
	maxData    = 4 << 30
	maxFile    = 1 << 30
	maxFiles   = 100_000
)

// Package is the content of a Debian package.
type Package struct {
	Name, Version, Architecture string
	// Source is the name of the source package.
	Source string
	// Control are its unchanged fields.
	Control []byte
	// Files are in the order of the archive. Their bytes are in the spool file.
	Files []tree.Entry
}

func newBuffered(r io.Reader) io.Reader { return bufio.NewReaderSize(r, 1<<16) }

// Read reads a package. Its data archive is decompressed into spool, a new file that must
// stay as long as the Package is used.
func Read(name, spool string) (*Package, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open package: %w", err)
	}
	defer func() { _ = f.Close() }()
	all, err := members(f)
	if err != nil {
		return nil, err
	}
	p := &Package{}
	if err := p.readControl(f, all); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	if err := unpackData(f, all, spool); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if p.Files, err = list(spool, p.Name+" "+p.Version); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return p, nil
}

func (p *Package) readControl(f *os.File, all []member) error {
	r, done, err := find(f, all, "control.tar")
	if err != nil {
		return err
	}
	defer done()
	in := tar.NewReader(io.LimitReader(r, maxControl))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("no file control in it")
		}
		if err != nil {
			return err
		}
		if strings.TrimPrefix(h.Name, "./") != "control" {
			continue
		}
		if p.Control, err = io.ReadAll(in); err != nil {
			return err
		}
		return p.fields()
	}
}

func (p *Package) fields() error {
	for line := range strings.Lines(string(p.Control)) {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch name {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.Architecture = value
		case "Source":
			p.Source, _, _ = strings.Cut(value, " ")
		}
	}
	if p.Source == "" {
		p.Source = p.Name
	}
	if p.Name == "" || p.Version == "" {
		return errors.New("no Package or no Version in it")
	}
	return nil
}

func unpackData(f *os.File, all []member, spool string) error {
	r, done, err := find(f, all, "data.tar")
	if err != nil {
		return err
	}
	defer done()
	out, err := os.OpenFile(spool, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(r, maxData+1))
	if err == nil && n > maxData {
		err = fmt.Errorf("more than %d bytes", int64(maxData))
	}
	return errors.Join(err, out.Close())
}

// list reads the headers of the spooled archive; bytes stay where they are.
func list(spool, origin string) ([]tree.Entry, error) {
	f, err := os.Open(spool)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var files []tree.Entry
	bodies := map[string]tree.Entry{}
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if len(files) == maxFiles {
			return nil, fmt.Errorf("more than %d files", maxFiles)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		if strings.Trim(h.Name, "./") == "" {
			continue // the root itself
		}
		e, err := entry(h, at, info.Size(), spool, bodies)
		if err != nil {
			return nil, err
		}
		e.Origin = origin
		if e.Kind == tree.File {
			bodies[e.Path] = e
		}
		files = append(files, e)
	}
}

func entry(h *tar.Header, at, end int64, spool string, bodies map[string]tree.Entry) (tree.Entry, error) {
	clean, err := tree.Clean(h.Name)
	if err != nil {
		return tree.Entry{}, err
	}
	e := tree.Entry{Path: clean, Mode: h.Mode & 0o1777, UID: h.Uid, GID: h.Gid}
	if h.Uid < 0 || h.Gid < 0 || h.Uid > 65534 || h.Gid > 65534 {
		return e, fmt.Errorf("%s belongs to %d:%d", clean, h.Uid, h.Gid)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = tree.Directory
	case tar.TypeSymlink:
		e.Kind, e.Target = tree.Symlink, h.Linkname
	case tar.TypeReg:
		if h.Size < 0 || h.Size > maxFile || at+h.Size > end {
			return e, fmt.Errorf("%s has %d bytes; the archive ends before, or it is too large", clean, h.Size)
		}
		e.Kind = tree.File
		e.Body = tree.Body{File: spool, Offset: at, Size: h.Size}
	case tar.TypeLink:
		// Only to a file that came before in the same package.
		to, err := tree.Clean(h.Linkname)
		if err != nil {
			return e, err
		}
		target, ok := bodies[to]
		if !ok {
			return e, fmt.Errorf("%s is a hard link to %s, which is no file before it", clean, to)
		}
		target.Path = clean
		return target, nil
	default:
		return e, fmt.Errorf("%s is neither file, directory nor link (type %q)", clean, h.Typeflag)
	}
	return e, nil
}

// StatusFile is the file that scanners read for the package in an image without dpkg, and its
// content.
func (p *Package) StatusFile() (name string, content []byte) {
	fields := bytes.TrimRight(p.Control, "\n")
	return "var/lib/dpkg/status.d/" + p.Name, append(bytes.Clone(fields), '\n')
}
