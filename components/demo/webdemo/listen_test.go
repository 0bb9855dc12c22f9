package webdemo_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"cadre.dev/demo/webdemo"
)

// A port of the loopback's other addresses stays free for the agent, and a taken one is an error.
func TestListeningTakesNoMoreThanItNames(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	served := make(chan net.Listener, 64)
	serve := func(l net.Listener) { served <- l }
	_, port, _ := net.SplitHostPort(refusing(t))
	if err := webdemo.Listen(ctx, "127.0.0.1:"+port+","+webdemo.Outside+":"+port, serve); err != nil {
		t.Fatal(err)
	}
	first := <-served
	t.Cleanup(func() {
		_ = first.Close()
		for len(served) > 0 {
			_ = (<-served).Close()
		}
	})
	peer, err := net.Listen("tcp", "127.32.0.9:"+port)
	if err != nil {
		t.Errorf("an address of a Peer is taken: %v", err)
	} else {
		_ = peer.Close()
	}
	if err := webdemo.Listen(ctx, "127.0.0.1:"+port, serve); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("listening twice: %v", err)
	}
	if err := webdemo.Listen(ctx, "8080", serve); err == nil {
		t.Error("an address without a host was taken")
	}
}
