// Package sds gives proxies of this CVM the Slot's certificate as files that they reload
// automatically, in the form of Envoy's secret discovery service:
//
//	tls.crt, tls.key  the SVID with its chain, and its key
//	ca.crt            the cluster CA
//	sds.yaml          a secret "svid" that names the first two
//	sds-ca.yaml       a secret "ca" that names the third
//
// All are links through one link, ..data, which a renewal replaces in one step: a reader sees the
// certificate and key of one renewal, and Envoy, which watches the folder for such moves, reads all
// of them again.
package sds

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Folder is the folder of certificate files. Safe for concurrent use.
type Folder struct {
	dir string
	gid int

	mu   sync.Mutex
	last []byte // guarded by mu; the leaf that is there
}

// Open takes over dir: it creates dir if needed and removes the files of an earlier Boot. The key
// is readable by root, and by gid if that is not 0.
func Open(dir string, gid int) (*Folder, error) {
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil { //nolint:gosec // the key has a mode of its own
		return nil, fmt.Errorf("open certificate folder: %w", err)
	}
	return &Folder{dir: dir, gid: gid}, nil
}

// names are the links in the folder.
var names = []string{"tls.crt", "tls.key", "ca.crt", "sds.yaml", "sds-ca.yaml"}

// Write replaces the certificate with its key, and the CA. The same certificate again changes
// nothing.
func (f *Folder) Write(cert tls.Certificate, caPEM []byte) error {
	if len(cert.Certificate) == 0 {
		return errors.New("write certificate folder: no certificate")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Equal(f.last, cert.Certificate[0]) {
		return nil
	}
	if err := f.write(cert, caPEM); err != nil {
		return fmt.Errorf("write certificate folder: %w", err)
	}
	f.last = slices.Clone(cert.Certificate[0])
	return nil
}

func (f *Folder) write(cert tls.Certificate, caPEM []byte) error {
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return fmt.Errorf("encode key: %w", err)
	}
	var chain []byte
	for _, der := range cert.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	next, err := os.MkdirTemp(f.dir, "..next-")
	if err != nil {
		return err
	}
	keyMode := fs.FileMode(0o400)
	if f.gid != 0 {
		keyMode = 0o440
	}
	for name, file := range map[string]struct {
		data []byte
		mode fs.FileMode
	}{
		"tls.crt": {chain, 0o444}, "ca.crt": {caPEM, 0o444},
		"tls.key":  {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), keyMode},
		"sds.yaml": {[]byte(strings.ReplaceAll(svidSecret, "DIR", f.dir)), 0o444}, "sds-ca.yaml": {[]byte(strings.ReplaceAll(caSecret, "DIR", f.dir)), 0o444},
	} {
		if err := f.put(filepath.Join(next, name), file.data, file.mode); err != nil {
			return err
		}
	}
	if err := os.Chmod(next, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	return f.swap(next)
}

// put writes one file; only its readers can open it at any moment.
func (f *Folder) put(path string, data []byte, mode fs.FileMode) error {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	if f.gid != 0 {
		if err := os.Chown(path, -1, f.gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, mode)
}

// swap points all links to next, in one step, and removes the previous folder.
func (f *Folder) swap(next string) error {
	data := filepath.Join(f.dir, "..data")
	before, err := os.Readlink(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	link := filepath.Join(f.dir, "..data.new")
	if err := errors.Join(ignoreAbsent(os.Remove(link)), os.Symlink(filepath.Base(next), link)); err != nil {
		return err
	}
	for _, name := range names {
		at := filepath.Join(f.dir, name)
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			if err := os.Symlink(filepath.Join("..data", name), at); err != nil {
				return err
			}
		}
	}
	if err := os.Rename(link, data); err != nil {
		return err
	}
	if before == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(f.dir, before))
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// One secret for each file: Envoy refuses more.
const (
	svidSecret = `resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: svid
  tls_certificate:
    certificate_chain: { filename: "DIR/tls.crt" }
    private_key: { filename: "DIR/tls.key" }
    watched_directory: { path: "DIR" }
`
	caSecret = `resources:
- "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
  name: ca
  validation_context:
    trusted_ca: { filename: "DIR/ca.crt" }
    watched_directory: { path: "DIR" }
`
)
