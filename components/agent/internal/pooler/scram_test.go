package pooler

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// loginWith logs in over TCP as an application's driver does: with its password by SCRAM if
// it has one. ctx bounds it.
func loginWith(ctx context.Context, address, user, database, password string) (*client, error) {
	if password == "" {
		return login(ctx, "tcp", address, user, database)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(at)
	}
	c := newClient(conn)
	start := binary.BigEndian.AppendUint32(nil, protocol)
	for _, s := range []string{"user", user, "database", database} {
		start = append(append(start, s...), 0)
	}
	if err := c.send(0, append(start, 0)); err != nil {
		return nil, err
	}
	if err := c.scram(password); err != nil {
		c.close()
		return nil, fmt.Errorf("log in to %s: %w", database, err)
	}
	if _, _, err := c.answer(); err != nil {
		c.close()
		return nil, fmt.Errorf("log in to %s: %w", database, err)
	}
	return c, conn.SetDeadline(time.Time{}) // the login's
}

func (c *client) send(kind byte, body []byte) error {
	var out []byte
	if kind != 0 {
		out = append(out, kind)
	}
	out = append(binary.BigEndian.AppendUint32(out, uint32(len(body)+4)), body...)
	_, err := c.conn.Write(out)
	return err
}

// scram is RFC 7677 from the server's offer on; the server's own proof is not looked at.
func (c *client) scram(password string) error {
	if _, err := c.saslAnswer(10); err != nil {
		return err
	}
	first := "n=,r=" + rand.Text()
	body := append([]byte("SCRAM-SHA-256\x00"), binary.BigEndian.AppendUint32(nil, uint32(len(first)+3))...)
	if err := c.send('p', append(body, "n,,"+first...)); err != nil {
		return err
	}
	challenge, err := c.saslAnswer(11)
	if err != nil {
		return err
	}
	final, err := scramFinal(password, first, challenge)
	if err != nil {
		return err
	}
	if err := c.send('p', []byte(final)); err != nil {
		return err
	}
	_, err = c.saslAnswer(12)
	return err
}

// saslAnswer is the server's message of that kind.
func (c *client) saslAnswer(want uint32) (string, error) {
	kind, body, err := c.message()
	switch {
	case err != nil:
		return "", err
	case kind == 'E':
		return "", parseRefusal(body)
	case kind != 'R' || len(body) < 4 || binary.BigEndian.Uint32(body) != want:
		return "", fmt.Errorf("message %q %q, want SASL's %d", kind, body, want)
	}
	return string(body[4:]), nil
}

func scramFinal(password, first, challenge string) (string, error) {
	field := map[string]string{}
	for part := range strings.SplitSeq(challenge, ",") {
		name, value, _ := strings.Cut(part, "=")
		field[name] = value
	}
	salt, err := base64.StdEncoding.DecodeString(field["s"])
	if err != nil {
		return "", err
	}
	rounds, err := strconv.Atoi(field["i"])
	if err != nil {
		return "", err
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	key := mac(salted, "Client Key")
	stored := sha256.Sum256(key)
	bare := "c=biws,r=" + field["r"]
	proof := bytes.Clone(key)
	for i, b := range mac(stored[:], first+","+challenge+","+bare) {
		proof[i] ^= b
	}
	return bare + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(text))
	return h.Sum(nil)
}
