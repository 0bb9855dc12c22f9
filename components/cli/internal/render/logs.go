package render

import (
	"bufio"
	"fmt"
	"io"
)

// Log shows foreign text without the characters that steer a terminal: control characters except
// newline and tab, in either of their forms, become \xNN. Not safe for concurrent use.
type Log struct {
	out *bufio.Writer
	// lead is a first byte of two whose second one has not come yet; 0: none.
	lead byte
	// within: the last line has no newline yet.
	within bool
}

// NewLog returns a Log that writes to out.
func NewLog(out io.Writer) *Log { return &Log{out: bufio.NewWriter(out)} }

// c1Lead begins the form that U+0080 to U+009F, the second set of control characters, have in UTF-8.
const c1Lead = 0xc2

// Piece shows one piece of text after a line about dropped bytes.
func (l *Log) Piece(dropped uint64, data []byte) error {
	if dropped > 0 {
		l.settle()
		if l.within {
			_ = l.out.WriteByte('\n')
		}
		l.within = false
		_, _ = fmt.Fprintf(l.out, "... %d bytes dropped\n", dropped)
	}
	for _, b := range data {
		l.show(b)
	}
	return l.out.Flush()
}

func (l *Log) show(b byte) {
	l.within = b != '\n'
	switch {
	case l.lead != 0 && b >= 0x80 && b < 0xa0:
		l.lead = 0
		_, _ = fmt.Fprintf(l.out, `\x%02x`, b)
		return
	case l.lead != 0:
		l.settle()
	}
	switch {
	case b == c1Lead:
		l.lead = b
	case b < 0x20 && b != '\n' && b != '\t', b == 0x7f:
		_, _ = fmt.Fprintf(l.out, `\x%02x`, b)
	default:
		_ = l.out.WriteByte(b)
	}
}

func (l *Log) settle() {
	if l.lead != 0 {
		_ = l.out.WriteByte(l.lead)
		l.lead = 0
	}
}

// Close shows the rest, and returns the first error of the writer.
func (l *Log) Close() error {
	l.settle()
	return l.out.Flush()
}
