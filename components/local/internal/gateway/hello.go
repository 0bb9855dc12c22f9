package gateway

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxHello bounds the bytes read before a connection has a name.
const maxHello = 32 << 10

const (
	recordHandshake  = 22
	helloClient      = 1
	extensionName    = 0
	nameTypeHost     = 0
	recordHeaderLen  = 5
	messageHeaderLen = 4
	maxRecord        = 16 << 10
)

// ReadHello reads one ClientHello from r. It returns the server name, "" when
// there is none, and every byte it took, to be sent on unchanged.
func ReadHello(r io.Reader) (name string, taken []byte, err error) {
	var message []byte
	for {
		var header [recordHeaderLen]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return "", taken, fmt.Errorf("read record header: %w", err)
		}
		taken = append(taken, header[:]...)
		size := int(header[3])<<8 | int(header[4])
		if header[0] != recordHandshake || header[1] != 3 {
			return "", taken, errors.New("not a TLS handshake")
		}
		if size == 0 || size > maxRecord || len(taken)+size > maxHello {
			return "", taken, fmt.Errorf("record of %d bytes is out of bounds", size)
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return "", taken, fmt.Errorf("read record: %w", err)
		}
		taken = append(taken, body...)
		message = append(message, body...)
		if len(message) < messageHeaderLen {
			continue
		}
		if message[0] != helloClient {
			return "", taken, errors.New("the first message is not a ClientHello")
		}
		want := messageHeaderLen + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		if want > maxHello {
			return "", taken, fmt.Errorf("ClientHello of %d bytes is out of bounds", want)
		}
		if len(message) >= want {
			name, err := serverName(message[messageHeaderLen:want])
			return name, taken, err
		}
	}
}

// serverName reads the body of a ClientHello.
func serverName(hello []byte) (string, error) {
	p := parser{rest: hello}
	p.skip(2 + 32)    // version, random
	p.skip(p.len8())  // session id
	p.skip(p.len16()) // cipher suites
	p.skip(p.len8())  // compression methods
	if p.bad {
		return "", errMalformed
	}
	if len(p.rest) == 0 {
		return "", nil
	}
	exts := parser{rest: p.take(p.len16())}
	if p.bad {
		return "", errMalformed
	}
	for len(exts.rest) > 0 {
		kind := exts.len16()
		data := exts.take(exts.len16())
		if exts.bad {
			return "", errMalformed
		}
		if kind != extensionName {
			continue
		}
		ext := parser{rest: data}
		names := parser{rest: ext.take(ext.len16())}
		for !ext.bad && len(names.rest) > 0 {
			kind := names.len8()
			host := names.take(names.len16())
			if names.bad {
				break
			}
			if kind == nameTypeHost {
				return string(host), nil
			}
		}
		if ext.bad || names.bad {
			return "", errMalformed
		}
	}
	return "", nil
}

var errMalformed = errors.New("malformed ClientHello")

// parser takes bytes off the front; after the first shortage it is bad and
// yields nothing.
type parser struct {
	rest []byte
	bad  bool
}

func (p *parser) take(n int) []byte {
	if p.bad || n > len(p.rest) {
		p.bad, p.rest = true, nil
		return nil
	}
	out := p.rest[:n]
	p.rest = p.rest[n:]
	return out
}

func (p *parser) skip(n int) { p.take(n) }

func (p *parser) len8() int {
	if b := p.take(1); b != nil {
		return int(b[0])
	}
	return 0
}

func (p *parser) len16() int {
	if b := p.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}
