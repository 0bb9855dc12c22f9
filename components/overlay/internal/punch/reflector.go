package punch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/internal/stunaddr"
)

const (
	// stunHeader is the length of a STUN header, which begins with the type, the length
	// of the rest, and the magic cookie.
	stunHeader = 20
	// maxAnswer bounds a reflector's answer, without the header.
	maxAnswer = 1024
)

// mappedAddress asks the reflector at the far end of conn for the near end's address, in
// the framing of RFC 5389: the message is alone on the stream, and its header has its
// length. It also returns the answer time. ctx ends it.
func mappedAddress(ctx context.Context, conn net.Conn) (netip.AddrPort, time.Duration, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	addr, took, err := binding(conn)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return addr, took, err
}

func binding(conn io.ReadWriter) (netip.AddrPort, time.Duration, error) {
	req, err := stun.Build(stun.TransactionID, stun.BindingRequest, stun.Fingerprint)
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("build binding request: %w", err)
	}
	begin := time.Now()
	if _, err := conn.Write(req.Raw); err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("ask reflector: %w", err)
	}
	res, err := readMessage(conn)
	took := time.Since(begin)
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("read reflector's answer: %w", err)
	}
	if res.TransactionID != req.TransactionID || res.Type != stun.BindingSuccess {
		return netip.AddrPort{}, 0, fmt.Errorf("reflector answered %s", res.Type)
	}
	addr, err := stunaddr.Read(res, stun.AttrXORMappedAddress)
	if err != nil {
		return netip.AddrPort{}, 0, fmt.Errorf("read mapped address: %w", err)
	}
	if addr.Port() == 0 {
		return netip.AddrPort{}, 0, errors.New("reflector gave no address")
	}
	return addr, took, nil
}

// readMessage reads one STUN message from a stream and no byte more.
func readMessage(r io.Reader) (*stun.Message, error) {
	buf := make([]byte, stunHeader, stunHeader+maxAnswer)
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	n := int(buf[2])<<8 | int(buf[3])
	if !stun.IsMessage(buf) || n > maxAnswer || n%4 != 0 {
		return nil, errors.New("not a STUN message")
	}
	buf = buf[:stunHeader+n]
	if _, err := io.ReadFull(r, buf[stunHeader:]); err != nil {
		return nil, err
	}
	m := new(stun.Message)
	if err := stun.Decode(buf, m); err != nil {
		return nil, err
	}
	return m, nil
}
