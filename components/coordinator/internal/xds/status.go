package xds

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// refusal is the Relay's own end of a stream.
type refusal struct {
	code codes.Code
	text string
	// elsewhere: this coordinator's Consul is unavailable to the member, and another one may be
	// available.
	elsewhere bool
}

func (r *refusal) Error() string { return r.text }

func refuse(code codes.Code, format string, args ...any) *refusal {
	return &refusal{code: code, text: fmt.Sprintf(format, args...)}
}

// Fields of a status in HTTP/2.
const (
	statusField  = "Grpc-Status"
	messageField = "Grpc-Message"
	contentType  = "application/grpc"
)

// write ends an answer; begun: its header is written.
func (r *refusal) write(h http.Header, begun bool) {
	prefix := ""
	if begun {
		prefix = http.TrailerPrefix
	} else {
		h.Set("Content-Type", contentType)
	}
	h.Set(prefix+statusField, strconv.Itoa(int(r.code)))
	h.Set(prefix+messageField, encode(r.text))
}

// readStatus returns the final status of an answer, from its header or trailer.
func readStatus(header, trailer http.Header) (*refusal, bool) {
	for _, h := range []http.Header{trailer, header} {
		if text := h.Get(statusField); text != "" {
			code, err := strconv.ParseUint(text, 10, 8)
			return &refusal{code: codes.Code(code), text: decode(h.Get(messageField))}, err == nil
		}
	}
	return nil, false
}

// maxText bounds the text of a status.
const maxText = 1 << 10

// encode encodes a text for a header of gRPC.
func encode(text string) string {
	var b strings.Builder
	for _, c := range []byte(text[:min(len(text), maxText)]) {
		if c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// decode is the inverse of encode; invalid input stays unchanged.
func decode(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
