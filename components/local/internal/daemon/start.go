package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"cadre.dev/local/internal/durable"
)

// started is DIR/start.json: the last start's settings, which the next start reuses. Contexts,
// compose files and CVMs contain the addresses; the flags make `serve --state DIR` bring the same
// cloud back.
type started struct {
	API      string            `json:"api"`
	Gateway  string            `json:"gateway"`
	Registry string            `json:"registry,omitempty"`
	Hosts    []startedHost     `json:"hosts,omitempty"`
	Domain   string            `json:"domain"`
	Flags    map[string]string `json:"flags,omitempty"`
}

func startFilePath(dir string) string { return filepath.Join(dir, "start.json") }

// LastFlags are the flags that the cloud of dir was last started with; none for a new one.
func LastFlags(dir string) (map[string]string, error) {
	s, err := readStarted(dir)
	return s.Flags, err
}

func readStarted(dir string) (started, error) {
	path := startFilePath(dir)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return started{}, nil
	}
	if err != nil {
		return started{}, fmt.Errorf("read the addresses of the last start: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var s started
	if err := dec.Decode(&s); err != nil {
		return started{}, fmt.Errorf("%s: %w; remove it to start with other addresses, which voids this cloud's contexts", path, err)
	}
	return s, nil
}

// write replaces the file as a whole, and durably: a machine that loses its power right after it
// has the old file or the new one.
func (s started) write(dir string) (err error) {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode start.json: %w", err)
	}
	return durable.Write(startFilePath(dir), append(raw, '\n'), 0o600)
}

// hasBootedCVMs reports whether dir has a CVM that has booted: then a context may contain the cloud's
// addresses.
func hasBootedCVMs(dir string) (bool, error) {
	cvms, err := os.ReadDir(filepath.Join(dir, "cvms"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(cvms) > 0, err
}
