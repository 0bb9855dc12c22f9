package kafka

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
)

// A node that answers nonsense is an error, and never a large allocation or a panic.
func TestNonsenseOfANodeIsAnError(t *testing.T) {
	frame := func(size, id uint32, body string) string {
		return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size), id)) + body
	}
	for name, c := range map[string]struct{ answer, want string }{
		"a closed connection":    {"", "EOF"},
		"another protocol":       {"HTTP/1.1 400 Bad Request\r\n\r\n", "an answer of"},
		"a huge answer":          {frame(1<<31, 1, ""), "an answer of"},
		"an answer too short":    {frame(3, 1, ""), "an answer of"},
		"another answer":         {frame(5, 7, "\x00"), "request 7"},
		"a cut body":             {frame(100, 1, "\x00"), "EOF"},
		"tags without an end":    {frame(5, 1, "\xff"), "header"},
		"a tag past the end":     {frame(7, 1, "\x01\x01\x7f"), "header"},
		"a body that ends early": {frame(5, 1, "\x00"), "enough data"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				node, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = node.Read(make([]byte, 1024))
				_, _ = node.Write([]byte(c.answer))
				_ = node.Close()
			}()
			to, err := dial(t.Context(), l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = to.Close() }()
			if _, err := readQuorum(to); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
