package certificate

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// readKey gives the key in a file, nil when there is none that can be used.
func readKey(name string) (*ecdsa.PrivateKey, error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // without a key the caller makes one
	}
	if err != nil {
		return nil, fmt.Errorf("read TLS key: %w", err)
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, nil //nolint:nilnil // as above: a start that was cut off
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, nil //nolint:nilnil,nilerr // as above
	}
	return key, nil
}

// replace writes a whole file or none, for its owner alone.
func replace(name string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
