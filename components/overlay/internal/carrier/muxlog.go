package carrier

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// yamuxConn is the connection type that yamux requires.
type yamuxConn = io.ReadWriteCloser

// muxLog passes yamux's lines to slog. The Session's error reports the important ones;
// the others help only a debugger.
type muxLog struct{ log *slog.Logger }

func (l muxLog) Printf(format string, v ...any) { l.line(fmt.Sprintf(format, v...)) }
func (l muxLog) Print(v ...any)                 { l.line(fmt.Sprint(v...)) }
func (l muxLog) Println(v ...any)               { l.line(fmt.Sprintln(v...)) }

func (l muxLog) line(s string) {
	l.log.Debug("multiplexer", "detail", strings.TrimSpace(s))
}
