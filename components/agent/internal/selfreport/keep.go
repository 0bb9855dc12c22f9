package selfreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"cadre.dev/agent/internal/durable"
)

// limit bounds the file. A group has at most 32 routes and 16 checks: of either as many words.
const limit = 256 << 10

// keep is where words outlive a process. Without a path they do not.
type keep struct {
	path, boot string
	log        *slog.Logger
	failing    bool
}

// file is the stored content, for the Boot that it names.
type file struct {
	Boot  string          `json:"boot"`
	Words map[string]kept `json:"words"`
}

// kept is a word and when it was said last, by the wall clock: it is the one clock that the
// next process has too.
type kept struct {
	Word

	At time.Time `json:"at"`
}

// load gives the words that were kept for this Boot.
func (k *keep) load() map[string]kept {
	f, err := k.read()
	if err != nil {
		k.log.Warn("the workloads' reports are lost, their state is unknown until the next reports", "error", err)
	}
	return f.Words
}

func (k *keep) read() (file, error) {
	if err := durable.RemoveLeftovers(k.path); err != nil {
		return file{}, err
	}
	data, exists, err := durable.ReadFile(k.path, limit)
	if err != nil || !exists {
		return file{}, err
	}
	var out file
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return file{}, fmt.Errorf("read %s: %w", k.path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return file{}, fmt.Errorf("read %s: data after the reports", k.path)
	}
	if out.Boot != k.boot {
		return file{}, nil // a report to another Boot does not count
	}
	for name, w := range out.Words {
		if err := w.check(); err != nil {
			return file{}, fmt.Errorf("read %s: %q: %w", k.path, name, err)
		}
	}
	return out, nil
}

// save replaces the stored reports. After a failure the reports end with this process, which logs
// the failure once.
func (k *keep) save(words map[string]kept) {
	if k.path == "" {
		return
	}
	err := durable.WriteJSON(k.path, file{Boot: k.boot, Words: words})
	if err != nil && !k.failing {
		k.log.Error("the workloads' reports are not saved for the next process", "error", err)
	}
	k.failing = err != nil
}

func (r *Registry) saveLocked() {
	words := make(map[string]kept, len(r.words))
	for name, w := range r.words {
		words[name] = kept{w.Word, w.at}
	}
	r.keep.save(words)
}
