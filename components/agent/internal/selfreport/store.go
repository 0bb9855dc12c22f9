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

// limit bounds the file. A group has at most 32 routes and 16 checks: it has as many reports.
const limit = 256 << 10

// keep stores the reports for the next process. Without a path it stores none.
type keep struct {
	path, boot string
	log        *slog.Logger
	failing    bool
}

// file is the stored content, for the Boot that it names.
type file struct {
	Boot    string                  `json:"boot"`
	Reports map[string]storedReport `json:"reports"`
}

// storedReport is a report with the wall-clock time when it was last made: the next process has no
// other common clock.
type storedReport struct {
	Report

	At time.Time `json:"at"`
}

// load returns the stored reports of this Boot.
func (k *keep) load() map[string]storedReport {
	f, err := k.read()
	if err != nil {
		k.log.Warn("the workloads' reports are lost, their state is unknown until the next reports", "error", err)
	}
	return f.Reports
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
	for name, w := range out.Reports {
		if err := w.check(); err != nil {
			return file{}, fmt.Errorf("read %s: %q: %w", k.path, name, err)
		}
	}
	return out, nil
}

// save replaces the stored reports. After a failure the reports end with this process, which logs
// the failure once.
func (k *keep) save(reports map[string]storedReport) {
	if k.path == "" {
		return
	}
	err := durable.WriteJSON(k.path, file{Boot: k.boot, Reports: reports})
	if err != nil && !k.failing {
		k.log.Error("the workloads' reports are not saved for the next process", "error", err)
	}
	k.failing = err != nil
}

func (r *Registry) saveLocked() {
	reports := make(map[string]storedReport, len(r.reports))
	for name, w := range r.reports {
		reports[name] = storedReport{w.Report, w.at}
	}
	r.keep.save(reports)
}
