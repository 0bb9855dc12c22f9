package carrier

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// yamuxConn is what yamux wants of a connection.
type yamuxConn = io.ReadWriteCloser

// muxLog passes yamux's lines to slog. What they tell is either reported by the
// Session's end or of interest to a debugger only.
type muxLog struct{ log *slog.Logger }

func (l muxLog) Printf(format string, v ...any) { l.line(fmt.Sprintf(format, v...)) }
func (l muxLog) Print(v ...any)                 { l.line(fmt.Sprint(v...)) }
func (l muxLog) Println(v ...any)               { l.line(fmt.Sprintln(v...)) }

func (l muxLog) line(s string) {
	l.log.Debug("multiplexer", "detail", strings.TrimSpace(s))
}
