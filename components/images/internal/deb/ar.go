package deb

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const (
	magic      = "!<arch>\n"
	headerSize = 60
	// maxMembers bounds an ar archive; a package has three.
	maxMembers = 16
	// maxMember is the largest member, in bytes, compressed.
	maxMember = 1 << 30
)

// member is one file of an ar archive.
type member struct {
	name         string
	offset, size int64
}

// members lists an ar archive.
func members(f io.ReaderAt) ([]member, error) {
	head := make([]byte, len(magic))
	if _, err := f.ReadAt(head, 0); err != nil || string(head) != magic {
		return nil, errors.New("not a Debian package: it does not begin as an ar archive")
	}
	var all []member
	for at := int64(len(magic)); ; {
		h := make([]byte, headerSize)
		n, err := f.ReadAt(h, at)
		if n == 0 && errors.Is(err, io.EOF) {
			return all, nil
		}
		if n < headerSize || !bytes.HasSuffix(h, []byte("`\n")) {
			return nil, fmt.Errorf("the ar archive is cut or broken at byte %d", at)
		}
		size, err := strconv.ParseInt(strings.TrimSpace(string(h[48:58])), 10, 64)
		if err != nil || size < 0 || size > maxMember {
			return nil, fmt.Errorf("the ar archive has a member of %q bytes", h[48:58])
		}
		if len(all) == maxMembers {
			return nil, fmt.Errorf("the ar archive has more than %d members", maxMembers)
		}
		name := strings.TrimSuffix(strings.TrimSpace(string(h[:16])), "/")
		all = append(all, member{name, at + headerSize, size})
		at += headerSize + size + size%2
	}
}

// find returns the member of that name, decompressed from any compression.
func find(f *os.File, all []member, name string) (io.Reader, func(), error) {
	none := func() {}
	for _, m := range all {
		ending, ok := strings.CutPrefix(m.name, name)
		if !ok {
			continue
		}
		raw := io.NewSectionReader(f, m.offset, m.size)
		switch ending {
		case "":
			return raw, none, nil
		case ".gz":
			r, err := gzip.NewReader(raw)
			return r, none, err
		case ".xz":
			// The reader asks for single bytes.
			r, err := xz.ReaderConfig{DictCap: 1 << 26}.NewReader(newBuffered(raw))
			return r, none, err
		case ".zst":
			r, err := zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<27))
			if err != nil {
				return nil, none, err
			}
			return r, r.Close, nil
		}
		return nil, none, fmt.Errorf("%s is compressed in a way that is not known here", m.name)
	}
	return nil, none, fmt.Errorf("it has no %s", name)
}
