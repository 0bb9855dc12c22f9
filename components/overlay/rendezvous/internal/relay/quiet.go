package relay

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pion/logging"
)

// quiet drops the engine's log lines about single datagrams: any stranger can cause such
// an error.
type quiet struct{ log *slog.Logger }

// NewLogger implements logging.LoggerFactory.
func (q quiet) NewLogger(string) logging.LeveledLogger { return q }

func (q quiet) debug(format string, args []any) {
	if q.log.Enabled(context.Background(), slog.LevelDebug) {
		q.log.Debug("TURN engine", "detail", fmt.Sprintf(format, args...))
	}
}

func (quiet) Trace(string)                  {}
func (quiet) Tracef(string, ...any)         {}
func (quiet) Debug(string)                  {}
func (quiet) Debugf(string, ...any)         {}
func (quiet) Info(string)                   {}
func (quiet) Infof(string, ...any)          {}
func (q quiet) Warn(msg string)             { q.debug("%s", []any{msg}) }
func (q quiet) Warnf(f string, args ...any) { q.debug(f, args) }
func (q quiet) Error(msg string)            { q.debug("%s", []any{msg}) }
func (q quiet) Errorf(f string, a ...any)   { q.debug(f, a) }
