package relay

import (
	"net"
	"testing"
	"time"

	"github.com/pion/stun/v2"
)

// FuzzDatagram sends bytes of members and of unauthenticated clients: the service must go on.
func FuzzDatagram(f *testing.F) {
	b := newBench(f)
	c := b.issue(who("c", "db-0", "a"))
	bind := stun.MustBuild(stun.TransactionID, stun.NewType(stun.MethodChannelBind, stun.ClassRequest))
	f.Add(bind.Raw, []byte{0, 0x0c, 0, 4, 0x40, 0, 0, 0})
	f.Add([]byte{0x40, 0, 0, 4, 1, 2, 3, 4}, []byte{})
	f.Add(stun.MustBuild(stun.TransactionID, stun.NewType(stun.MethodSend, stun.ClassIndication)).Raw, []byte{0, 0x12, 0, 8, 0, 1, 0, 0, 1, 2, 3, 4})
	methods := []stun.Method{stun.MethodAllocate, stun.MethodRefresh, stun.MethodCreatePermission, stun.MethodChannelBind}
	f.Fuzz(func(t *testing.T, datagram, attrs []byte) {
		r := newRaw(t, b, c)
		if len(datagram) > 1400 || len(attrs) > 400 {
			return
		}
		_, _ = r.conn.Write(datagram)
		// The same attributes, signed by a member with an allocation.
		code, _ := r.do(stun.MethodAllocate, requestUDP())
		for _, m := range methods {
			parts := append([]stun.Setter{stun.TransactionID, stun.NewType(m, stun.ClassRequest)}, split(attrs)...)
			parts = append(parts, stun.NewUsername(c.Username), stun.NewRealm(Realm), stun.NewNonce(r.nonce),
				stun.NewLongTermIntegrity(c.Username, Realm, c.Password))
			if msg, err := stun.Build(parts...); err == nil {
				_, _ = r.conn.Write(msg.Raw)
			}
		}
		if code == 0 {
			r.do(stun.MethodRefresh, stun.RawAttribute{Type: attrLifetime, Value: []byte{0, 0, 0, 0}})
		}
		mark := r.ask(stun.BindingRequest)
		if mark.Type.Class != stun.ClassSuccessResponse {
			t.Errorf("the service answers %s", mark.Type)
		}
	})
}

// split reads attributes off b: type, length, value.
func split(b []byte) []stun.Setter {
	var all []stun.Setter
	for len(b) >= 4 && len(all) < 8 {
		n := min(int(b[3])%64, len(b)-4)
		all = append(all, stun.RawAttribute{Type: stun.AttrType(uint16(b[0])<<8 | uint16(b[1])), Value: b[4 : 4+n]})
		b = b[4+n:]
	}
	return all
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x40, 0, 0, 1, 9, 0, 0, 0})
	f.Add([]byte{0x40, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, stream []byte) {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Write(stream)
			far.Close()
		}()
		defer near.Close()
		_ = near.SetDeadline(time.Now().Add(5 * time.Second))
		fr := newFrames(near, func() {})
		buf := make([]byte, engineMTU)
		total := 0
		for {
			n, _, err := fr.ReadFrom(buf)
			if err != nil {
				break
			}
			total += n
		}
		if total > len(stream) {
			t.Errorf("%d bytes out of %d", total, len(stream))
		}
	})
}
