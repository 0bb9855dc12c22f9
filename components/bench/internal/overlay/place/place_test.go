package place

import "testing"

func TestCableJoinsTwoHosts(t *testing.T) {
	if why := Why(); why != "" {
		t.Skip(why)
	}
	c, err := NewCable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := c.A.ip(t.Context(), "route", "get", c.AddrB.String()); err != nil {
		t.Error(err)
	}
	if err := Run(t.Context(), c.B, "ip", "addr", "show", "dev", "cable", "up"); err != nil {
		t.Error(err)
	}
}
