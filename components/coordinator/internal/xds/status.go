package xds

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// refusal is how a stream ends that is not Consul's to end.
type refusal struct {
	code codes.Code
	text string
	// elsewhere: this coordinator's Consul gives the member nothing, and another one may.
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

// write ends an answer: begun tells that its header is written.
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

// readStatus is the status that an answer ended with, in its header or trailer.
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

// encode writes a text as gRPC has it in a header.
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

// decode is its inverse; what is none of it stays.
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
