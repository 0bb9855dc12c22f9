package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestTheCommandLineIsChecked(t *testing.T) {
	env := func(name string) string {
		return map[string]string{"CADRE_SLOT": "web-0", "CADRE_MEMBERS": "web-0,web-1"}[name]
	}
	for args, want := range map[string]string{
		"-all=webdemo":                 "-all",
		"-master=a:1":                  "go together",
		"-master=a:1 -replica=b":       "-replica",
		"-call=worker:9090/hello":      "-call",
		"-call=https://worker:9/hello": "-call",
		"-port=9000":                   "not defined",
	} {
		if _, _, err := parse(strings.Fields(args), env); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want something of %q", args, err, want)
		}
	}
	listen, w, err := parse(strings.Fields("-all=webdemo:8080 -call=http://worker:9090/hello -release=2"), env)
	if err != nil || listen != "127.0.0.1:8080" || w.Self.Slot != "web-0" || w.Self.Release != "2" || len(w.Members) != 2 {
		t.Errorf("%q %+v, %v", listen, w, err)
	}
}

// Open requests get their answers when the program is stopped.
func TestStoppingLetsAnswersEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	ctx, stop := context.WithCancel(t.Context())
	began := make(chan struct{})
	stopped := make(chan error, 1)
	go func() {
		stopped <- serve(ctx, l.Addr().String(), http.HandlerFunc(func(out http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/slow" {
				close(began)
				<-ctx.Done()
			}
			_, _ = io.WriteString(out, "whole")
		}))
	}()
	for {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			_ = conn.Close()
			break
		}
		select {
		case err := <-stopped:
			t.Fatal(err)
		default:
		}
	}
	go func() { <-began; stop() }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if said, err := io.ReadAll(resp.Body); err != nil || string(said) != "whole" {
		t.Errorf("%q, %v", said, err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
