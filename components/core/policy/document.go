package policy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"time"

	"cadre.dev/core/appcompose"
)

// Document is the record at app-compose/<compose hash>: the app-compose.json that was judged before
// its hash was allowed, for operators to read.
type Document struct {
	// ComposeHash, 64 hex digits, is that of the text.
	ComposeHash string `json:"compose_hash"`
	Group       string `json:"group"`
	// Revision that it was first judged for.
	Revision string `json:"revision"`
	// Gzip is the text, compressed: exactly the bytes that are measured.
	Gzip      []byte    `json:"gzip"`
	CreatedAt time.Time `json:"created_at"`
	Term      uint64    `json:"term"`
}

// NewDocument packs a text.
func NewDocument(groupName, revision string, text []byte, at time.Time, term uint64) (Document, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(text)
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return Document{}, fmt.Errorf("pack app-compose.json: %w", err)
	}
	return Document{
		ComposeHash: appcompose.Hash(text), Group: groupName, Revision: revision, Gzip: packed.Bytes(), CreatedAt: at, Term: term,
	}, nil
}

// Text unpacks it. The error reports a record that differs from the judged text.
func (d Document) Text() ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(d.Gzip))
	if err != nil {
		return nil, fmt.Errorf("unpack app-compose.json: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(r, appcompose.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("unpack app-compose.json: %w", err)
	}
	if hash := appcompose.Hash(text); hash != d.ComposeHash {
		return nil, fmt.Errorf("the record's text hashes to %s, not to %.64s: the record was edited", hash, d.ComposeHash)
	}
	return text, nil
}
