package logging

import (
	"context"
	"io"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// New returns a logger that writes one JSON object for each record to out. level is
// the least that is written: trace, debug, info, warn or error; another word is info.
func New(name, level string, out io.Writer) *slog.Logger {
	least := hclog.LevelFromString(level)
	if least == hclog.NoLevel {
		least = hclog.Info
	}
	backend := hclog.New(&hclog.LoggerOptions{Name: name, Level: least, Output: out, JSONFormat: true})
	return slog.New(&handler{log: backend})
}

// handler adapts one slog.Handler to one hclog.Logger.
type handler struct {
	log    hclog.Logger
	prefix string
}

var levels = []struct {
	from slog.Level
	to   hclog.Level
}{{slog.LevelError, hclog.Error}, {slog.LevelWarn, hclog.Warn}, {slog.LevelInfo, hclog.Info}, {slog.LevelDebug, hclog.Debug}}

func toHCLog(level slog.Level) hclog.Level {
	for _, l := range levels {
		if level >= l.from {
			return l.to
		}
	}
	return hclog.Trace
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	return toHCLog(level) >= h.log.GetLevel()
}

// Handle implements slog.Handler.
func (h *handler) Handle(_ context.Context, record slog.Record) error {
	args := make([]any, 0, 2*record.NumAttrs())
	record.Attrs(func(a slog.Attr) bool {
		args = append(args, h.prefix+a.Key, value(a))
		return true
	})
	h.log.Log(toHCLog(record.Level), record.Message, args...)
	return nil
}

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	args := make([]any, 0, 2*len(attrs))
	for _, a := range attrs {
		args = append(args, h.prefix+a.Key, value(a))
	}
	return &handler{log: h.log.With(args...), prefix: h.prefix}
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{log: h.log, prefix: h.prefix + name + "."}
}

// value makes errors and stringers readable in JSON.
func value(a slog.Attr) any {
	switch v := a.Value.Resolve().Any().(type) {
	case error:
		return v.Error()
	case nil:
		return ""
	default:
		return v
	}
}
