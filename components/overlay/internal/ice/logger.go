package ice

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pion/logging"
)

// iceLog passes pion's lines to slog at debug level: the Search itself reports the
// important events. It formats no line that is not read, and drops traces.
type iceLog struct {
	log   *slog.Logger
	scope string
}

var (
	_ logging.LoggerFactory = iceLog{}
	_ logging.LeveledLogger = iceLog{}
)

func (l iceLog) NewLogger(scope string) logging.LeveledLogger {
	return iceLog{log: l.log, scope: scope}
}

func (l iceLog) line(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("ice library", "scope", l.scope, "detail", fmt.Sprintf(format, args...))
	}
}

func (iceLog) Trace(string)                {}
func (iceLog) Tracef(string, ...any)       {}
func (l iceLog) Debug(s string)            { l.line("%s", s) }
func (l iceLog) Debugf(f string, a ...any) { l.line(f, a...) }
func (l iceLog) Info(s string)             { l.line("%s", s) }
func (l iceLog) Infof(f string, a ...any)  { l.line(f, a...) }
func (l iceLog) Warn(s string)             { l.line("%s", s) }
func (l iceLog) Warnf(f string, a ...any)  { l.line(f, a...) }
func (l iceLog) Error(s string)            { l.line("%s", s) }
func (l iceLog) Errorf(f string, a ...any) { l.line(f, a...) }
