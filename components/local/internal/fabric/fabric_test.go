package fabric

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"
)

func TestCableStaysInItsNet(t *testing.T) {
	for index, want := range map[int][2]string{
		1:        {"10.213.0.5/30", "10.213.0.6/30"},
		64:       {"10.213.1.1/30", "10.213.1.2/30"},
		MaxIndex: {"10.213.255.253/30", "10.213.255.254/30"},
	} {
		near, far := cable(index)
		if near.String() != want[0] || far.String() != want[1] {
			t.Errorf("cable(%d) = %s, %s, want %v", index, near, far, want)
		}
	}
}

func TestMachinesReachOnlyTheFabric(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: making network namespaces needs root")
	}
	f, err := Open(t.Context(), Network{})
	if err != nil {
		t.Skipf("skipped: no network namespaces here: %v", err)
	}
	defer f.Close()
	var ports []*Port
	for i := 1; i <= 2; i++ {
		p, err := f.Attach(fmt.Sprint("cvm-", i), i)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		ports = append(ports, p)
	}
	l, err := f.Listen(t.Context(), 443)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	dial := func(p *Port, to netip.Addr, port uint16) (c net.Conn, err error) {
		err = p.Inside(func() (err error) {
			c, err = (&net.Dialer{Timeout: 2 * time.Second}).Dial("tcp4", netip.AddrPortFrom(to, port).String())
			return err
		})
		return c, err
	}
	c, err := dial(ports[0], Address, 443)
	if err != nil {
		t.Fatalf("machine 1 to fabric: %v", err)
	}
	got, _ := io.ReadAll(c)
	c.Close()
	if string(got) != "hello" {
		t.Errorf("read %q from the fabric", got)
	}

	var inner net.Listener
	if err := ports[1].Inside(func() (err error) { inner, err = net.Listen("tcp4", "0.0.0.0:9000"); return err }); err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	if _, err := dial(ports[0], ports[1].Addr, 9000); err == nil {
		t.Error("machine 1 reached machine 2")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	fc, err := f.Dial(ctx, netip.AddrPortFrom(ports[1].Addr, 9000))
	if err != nil {
		t.Fatalf("fabric to machine 2: %v", err)
	}
	fc.Close()
}
