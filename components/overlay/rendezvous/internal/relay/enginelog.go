package relay

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pion/logging"
)

// engineLog drops the engine's log lines about single datagrams: any sender can cause such
// an error.
type engineLog struct{ log *slog.Logger }

// NewLogger implements logging.LoggerFactory.
func (e engineLog) NewLogger(string) logging.LeveledLogger { return e }

func (e engineLog) debug(format string, args []any) {
	if e.log.Enabled(context.Background(), slog.LevelDebug) {
		e.log.Debug("TURN engine", "detail", fmt.Sprintf(format, args...))
	}
}

func (e engineLog) Trace(string)                {}
func (e engineLog) Tracef(string, ...any)       {}
func (e engineLog) Debug(string)                {}
func (e engineLog) Debugf(string, ...any)       {}
func (e engineLog) Info(string)                 {}
func (e engineLog) Infof(string, ...any)        {}
func (e engineLog) Warn(msg string)             { e.debug("%s", []any{msg}) }
func (e engineLog) Warnf(f string, args ...any) { e.debug(f, args) }
func (e engineLog) Error(msg string)            { e.debug("%s", []any{msg}) }
func (e engineLog) Errorf(f string, a ...any)   { e.debug(f, a) }
