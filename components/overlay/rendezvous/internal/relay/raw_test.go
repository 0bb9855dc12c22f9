package relay

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/pion/stun/v2"

	"cadre.dev/overlay/rendezvous/internal/credential"
)

var errDeadline = os.ErrDeadlineExceeded

// raw speaks TURN request by request, so that answers can be seen.
type raw struct {
	t          testing.TB
	conn       net.Conn
	credential credential.Credential
	nonce      string
}

func newRaw(t testing.TB, b *bench, c credential.Credential) *raw {
	t.Helper()
	conn, err := net.Dial("udp", b.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &raw{t: t, conn: conn, credential: c}
	answer := r.ask(stun.NewType(stun.MethodAllocate, stun.ClassRequest), requestUDP())
	var nonce stun.Nonce
	if err := nonce.GetFrom(answer); err != nil {
		t.Fatalf("no nonce: %v", err)
	}
	r.nonce = nonce.String()
	return r
}

// do makes one signed request and gives the error code and reason, 0 for none.
func (r *raw) do(method stun.Method, attrs ...stun.Setter) (int, string) {
	r.t.Helper()
	attrs = append(attrs, stun.NewUsername(r.credential.Username), stun.NewRealm(Realm), stun.NewNonce(r.nonce),
		stun.NewLongTermIntegrity(r.credential.Username, Realm, r.credential.Password))
	answer := r.ask(stun.NewType(method, stun.ClassRequest), attrs...)
	if answer.Type.Class == stun.ClassSuccessResponse {
		return 0, ""
	}
	var code stun.ErrorCodeAttribute
	if err := code.GetFrom(answer); err != nil {
		return -1, err.Error()
	}
	return int(code.Code), string(code.Reason)
}

func (r *raw) ask(kind stun.MessageType, attrs ...stun.Setter) *stun.Message {
	r.t.Helper()
	m, err := stun.Build(append([]stun.Setter{stun.TransactionID, kind}, attrs...)...)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.conn.Write(m.Raw); err != nil {
		r.t.Fatal(err)
	}
	_ = r.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 2000)
	for {
		n, err := r.conn.Read(buf)
		if err != nil {
			r.t.Fatalf("%s: %v", kind, err)
		}
		answer := &stun.Message{Raw: buf[:n]}
		if answer.Decode() == nil && answer.TransactionID == m.TransactionID {
			return answer
		}
	}
}

// indicate sends data to a peer without asking.
func (r *raw) indicate(peer netip.AddrPort, text string) {
	r.t.Helper()
	m, err := stun.Build(stun.TransactionID, stun.NewType(stun.MethodSend, stun.ClassIndication),
		peerAttr(peer), stun.RawAttribute{Type: stun.AttrData, Value: []byte(text)})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.conn.Write(m.Raw); err != nil {
		r.t.Fatal(err)
	}
}

func requestUDP() stun.Setter {
	return stun.RawAttribute{Type: attrRequested, Value: []byte{protoUDP, 0, 0, 0}}
}

// xorPeer is an XOR-PEER-ADDRESS.
type xorPeer stun.XORMappedAddress

func (x xorPeer) AddTo(m *stun.Message) error {
	return stun.XORMappedAddress(x).AddToAs(m, attrXORPeer)
}

func peerAttr(p netip.AddrPort) stun.Setter {
	return xorPeer{IP: p.Addr().AsSlice(), Port: int(p.Port())}
}

var nextChannel uint16 = 0x4000

func peerAttrs(p netip.AddrPort, method stun.Method) []stun.Setter {
	attrs := []stun.Setter{peerAttr(p)}
	if method == stun.MethodChannelBind {
		nextChannel++
		attrs = append(attrs, stun.RawAttribute{Type: attrChannel, Value: []byte{byte(nextChannel >> 8), byte(nextChannel), 0, 0}})
	}
	return attrs
}

// eventually waits for a condition that nothing signals.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(15 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited too long for: %s", what)
		}
	}
}
