package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

// level is the compression of layers. Another release of the compressor may write other
// bytes: its version is pinned in go.mod, and a test compares its output.
const level = 6

// Blob is a file of an image, by its digest.
type Blob struct {
	Descriptor v1.Descriptor
	// DiffID is the digest of a layer before compression.
	DiffID v1.Hash
	// Raw is the size before compression, in bytes.
	Raw int64
	// Path is the file; empty for one in Data.
	Path string
	Data []byte
}

// Layer compresses the tar from write into a new file of dir.
func Layer(dir string, write func(io.Writer) error) (Blob, error) {
	f, err := os.CreateTemp(dir, ".layer-*")
	if err != nil {
		return Blob{}, fmt.Errorf("make a layer: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	packed, plain := newCounter(f), newCounter(nil)
	gz, err := gzip.NewWriterLevel(packed, level)
	if err != nil {
		return Blob{}, fmt.Errorf("make a layer: %w", err)
	}
	plain.to = gz
	if err := errors.Join(write(plain), gz.Close(), f.Chmod(0o644), f.Close()); err != nil {
		return Blob{}, fmt.Errorf("make a layer: %w", err)
	}
	b := Blob{DiffID: plain.hash(), Raw: plain.n}
	b.Descriptor = v1.Descriptor{MediaType: types.OCILayer, Digest: packed.hash(), Size: packed.n}
	b.Path = filepath.Join(dir, b.Descriptor.Digest.Hex)
	if err := os.Rename(f.Name(), b.Path); err != nil {
		return Blob{}, fmt.Errorf("make a layer: %w", err)
	}
	return b, nil
}

// Bytes is a blob that is in memory.
func Bytes(kind types.MediaType, data []byte) Blob {
	digest, size, _ := v1.SHA256(bytes.NewReader(data)) // reading memory does not fail
	return Blob{Descriptor: v1.Descriptor{MediaType: kind, Digest: digest, Size: size}, DiffID: digest, Data: data}
}

func (b Blob) open() (io.ReadCloser, error) {
	if b.Path == "" {
		return io.NopCloser(bytes.NewReader(b.Data)), nil
	}
	return os.Open(b.Path)
}

// counter hashes and counts the bytes that pass.
type counter struct {
	to  io.Writer
	sum hash.Hash
	n   int64
}

func newCounter(to io.Writer) *counter { return &counter{to: to, sum: sha256.New()} }

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.sum.Write(p[:n])
	c.n += int64(n)
	return n, err
}

func (c *counter) hash() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(c.sum.Sum(nil))}
}
