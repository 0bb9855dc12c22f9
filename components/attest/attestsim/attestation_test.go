package attestsim_test

import (
	"context"
	"crypto/sha512"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/Dstack-TEE/dstack/sdk/go/dstack"

	"cadre.dev/attest"
)

// versioned is a decoded attestation of version 0 on TDX.
type versioned struct {
	quote      []byte
	log        []map[string]any // as GetQuote shows events
	runtime    int
	reportData [64]byte
	config     string
}

// scale reads SCALE as dstack-attest declares it; the first error stays.
type scale struct {
	rest []byte
	err  error
}

func (s *scale) take(n int) []byte {
	if n > len(s.rest) {
		s.rest, s.err = nil, errors.New("the attestation is too short")
		return make([]byte, min(n, 64))
	}
	out := s.rest[:n]
	s.rest = s.rest[n:]
	return out
}

func (s *scale) u32() uint32 { return binary.LittleEndian.Uint32(s.take(4)) }

func (s *scale) length() int {
	first := s.take(1)[0]
	switch first & 3 {
	case 0:
		return int(first >> 2)
	case 1:
		return int(binary.LittleEndian.Uint16([]byte{first, s.take(1)[0]}) >> 2)
	case 2:
		return int(binary.LittleEndian.Uint32(append([]byte{first}, s.take(3)...)) >> 2)
	}
	s.err = errors.New("a length of more than 30 bits")
	return 0
}

func (s *scale) bytes() []byte { return s.take(s.length()) }

func decodeVersioned(blob []byte) (out versioned, err error) {
	s := &scale{rest: blob}
	if head := s.take(2); head[0] != 0 || head[1] != 0 {
		return out, fmt.Errorf("version %d, platform %d", head[0], head[1])
	}
	out.quote = s.bytes()
	for range s.length() {
		if s.err != nil {
			break
		}
		ev := map[string]any{"imr": s.u32(), "event_type": s.u32(), "digest": hex.EncodeToString(s.bytes()), "event": string(s.bytes())}
		ev["event_payload"] = hex.EncodeToString(s.bytes())
		out.log = append(out.log, ev)
	}
	for range s.length() {
		if s.err != nil {
			break
		}
		s.bytes()
		s.bytes()
		out.runtime++
	}
	copy(out.reportData[:], s.take(64))
	out.config = string(s.bytes())
	if s.err == nil && len(s.rest) > 0 {
		s.err = fmt.Errorf("%d bytes follow the attestation", len(s.rest))
	}
	return out, s.err
}

// verify has the real verifier judge the decoded evidence.
func (v versioned) verify(t *testing.T, root, appCompose []byte) {
	t.Helper()
	log, err := json.Marshal(v.log)
	if err != nil {
		t.Fatal(err)
	}
	ev := attest.Evidence{Quote: v.quote, EventLog: string(log), AppCompose: appCompose}
	if _, err := newVerifier(t, root).Verify(context.Background(), ev, v.reportData); err != nil {
		t.Error(err)
	}
}

func TestSDKAttest(t *testing.T) {
	ctx := context.Background()
	cloud, cfg := openCloud(t), bootConfig(t)
	client, _, _ := sdkClient(t, cloud, cfg)
	reply, err := client.Attest(ctx, []byte{0x12, 0x34})
	if err != nil {
		t.Fatal(err)
	}
	got, err := decodeVersioned(reply.Attestation)
	if err != nil {
		t.Fatal(err)
	}
	if got.reportData != [64]byte{0x12, 0x34} {
		t.Errorf("report data %x", got.reportData)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(got.config), &config); err != nil || config["os_image_hash"] == nil {
		t.Errorf("vm_config %q: %v", got.config, err)
	}
	info, err := client.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tcb, err := info.DecodeTcbInfo()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.log) != len(tcb.EventLog) || got.runtime == 0 || got.runtime >= len(got.log) {
		t.Errorf("%d events with %d at run time; Info has %d", len(got.log), got.runtime, len(tcb.EventLog))
	}
	got.verify(t, cloud.RootPEM(), cfg.AppCompose)
}

// TestSDKGetRATLSKey: the certificate of today's agents carries evidence for its own key.
func TestSDKGetRATLSKey(t *testing.T) {
	cloud, cfg := openCloud(t), bootConfig(t)
	client, _, _ := sdkClient(t, cloud, cfg)
	reply, err := client.GetTlsKey(context.Background(), dstack.WithSubject("web"), dstack.WithUsageRaTls(true))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode([]byte(reply.CertificateChain[0]))
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{}
	for _, ext := range leaf.Extensions {
		var content []byte
		if _, err := asn1.Unmarshal(ext.Value, &content); err == nil {
			contents[ext.Id.String()] = content
		}
	}
	const arc = "1.3.6.1.4.1.62397.1."
	if contents[arc+"1"] != nil || contents[arc+"2"] != nil {
		t.Error("the certificate has the extensions of agents before 0.5.6")
	}
	if string(contents[arc+"4"]) != "app:custom" || hex.EncodeToString(contents[arc+"3"]) != cfg.AppID {
		t.Errorf("usage %q, app %x", contents[arc+"4"], contents[arc+"3"])
	}
	got, err := decodeVersioned(contents[arc+"8"])
	if err != nil {
		t.Fatal(err)
	}
	if want := sha512.Sum512(append([]byte("ratls-cert:"), leaf.RawSubjectPublicKeyInfo...)); got.reportData != want {
		t.Errorf("the evidence is for another key: %x", got.reportData)
	}
	for _, ev := range got.log {
		if ev["imr"] != uint32(3) || ev["digest"] != "" {
			t.Errorf("event %v is more than a certificate shows", ev)
		}
	}
	if len(got.log) != got.runtime {
		t.Errorf("%d events, %d at run time", len(got.log), got.runtime)
	}
}

// TestAnswersAreReadByTheNodeSDK uses the protocol of @phala/dstack-sdk: raw HTTP on the socket, a
// body of Content-Length bytes. A chunked answer is empty to that client.
func TestAnswersAreReadByTheNodeSDK(t *testing.T) {
	_, socket := serve(t, openCloud(t), bootConfig(t))
	for path, body := range map[string]string{
		"/Info": "{}", "/GetQuote": `{"report_data":"12"}`, "/Attest": "{}", "/GetTlsKey": `{"usage_ra_tls":true}`,
		"/EmitEvent": `{"event":"e","payload":""}`, "/GetKey": `{"algorithm":"none"}`, "/Nothing": "{}",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", path, len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		_ = conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		head, answer, _ := strings.Cut(string(text), "\r\n\r\n")
		length := 0
		for line := range strings.SplitSeq(head, "\r\n") {
			if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, "Content-Length") {
				if length, err = strconv.Atoi(value); err != nil {
					t.Fatal(err)
				}
			}
		}
		if length == 0 || length > len(answer) || !json.Valid([]byte(answer[:length])) {
			t.Errorf("%s: length %d of %d bytes:\n%.300s", path, length, len(answer), text)
		}
	}
}
