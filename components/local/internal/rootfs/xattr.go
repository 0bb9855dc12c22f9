package rootfs

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	paxAttribute  = "SCHILY.xattr."
	maxAttributes = 32
	maxAttribute  = 64 << 10
)

type attribute struct{ name, value string }

// extended are an entry's extended attributes. Capabilities of files and user attributes are taken.
// trusted.* addresses the file system that stacks the layers, and is rejected.
func extended(h *tar.Header) ([]attribute, error) {
	var out []attribute
	for key, value := range h.PAXRecords {
		name, is := strings.CutPrefix(key, paxAttribute)
		if !is || name == "security.selinux" { // labels are of the machine that built it
			continue
		}
		if name != "security.capability" && !strings.HasPrefix(name, "user.") {
			return nil, fmt.Errorf("extended attribute %.100q is not taken", name)
		}
		if len(value) > maxAttribute {
			return nil, fmt.Errorf("extended attribute %.100q is larger than %d bytes", name, maxAttribute)
		}
		if out = append(out, attribute{name, value}); len(out) > maxAttributes {
			return nil, errors.New("too many extended attributes")
		}
	}
	return out, nil
}

func (a attribute) set(f *os.File) error {
	if err := unix.Fsetxattr(int(f.Fd()), a.name, []byte(a.value), 0); err != nil {
		return fmt.Errorf("set extended attribute %s: %w", a.name, err)
	}
	return nil
}
