package coordinator_test

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"cadre.dev/coordinator/internal/testnet"
	"cadre.dev/coordinator/wholetest"
	apiv1 "cadre.dev/proto/cadre/api/v1"
)

// TestCTL13_ConsulsOwnToolStartsARollout runs the real `consul` through the gateway, at the name of
// the operators' port, against a whole coordinator. An author writes the first spec of a group, which
// waits for an approval. The author's token cannot approve, by KV and by the API; an approver's can.
func TestCTL13_ConsulsOwnToolStartsARollout(t *testing.T) {
	if !testnet.Isolated(t) {
		return
	}
	h := newHarness(t)
	h.Start()
	api := h.dial(h.OperatorToken)
	h.Eventually("the first answer", func() error {
		_, err := api.GetCluster(api.ctx, &apiv1.GetClusterRequest{})
		return err
	})
	const authorToken, approverToken = "5c0e7d9a-93b4-4a43-9a55-0a3b1f0a7b21", "6d1f8e0b-04c5-4b54-8b66-1b4c2a1b8c32"
	for token, role := range map[string]string{authorToken: "operate", approverToken: "approve"} {
		digest := sha256.Sum256([]byte(token))
		if _, err := api.operators.AddOperator(api.ctx, &apiv1.AddOperatorRequest{
			Name: role, Role: role, Sha256: hex.EncodeToString(digest[:]), Expires: timestamppb.New(time.Now().Add(time.Hour)),
		}); err != nil {
			t.Fatal(err)
		}
	}
	name := wholetest.CoordinatorApp + "-7444s." + wholetest.GatewayDomain
	conn, err := tls.Dial("tcp", h.Gateway.Address(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	chain := conn.ConnectionState().PeerCertificates
	_ = conn.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[len(chain)-1].Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	consul := func(token string, args ...string) (string, error) {
		c := exec.CommandContext(t.Context(), "consul", args...)
		c.Env = append(os.Environ(), "CONSUL_HTTP_ADDR=https://"+h.Gateway.Address(), "CONSUL_TLS_SERVER_NAME="+name, "CONSUL_CACERT="+ca, "CONSUL_HTTP_TOKEN="+token)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := consul(authorToken, "kv", "put", "-cas", "-modify-index=0", "cadre/v1/groups/web/spec", string(approving(t, "one"))); err != nil {
		t.Fatal(out, err)
	}
	h.says(api, "REVISION_NOT_APPROVED")
	got, err := api.GetGroup(api.ctx, &apiv1.GetGroupRequest{Group: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := consul(authorToken, "kv", "put", "-cas", "-modify-index=0", "cadre/v1/control/approvals/"+got.GetRevision(), "{}"); err == nil || !strings.Contains(out, "Permission denied") {
		t.Errorf("the author approves by KV: %s, %v", out, err)
	}
	author, approver := h.dial(authorToken), h.dial(approverToken)
	if _, err := author.policy.ApproveRevision(author.ctx, &apiv1.ApproveRevisionRequest{Revision: got.GetRevision()}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the author approves over the API: %v", err)
	}
	if _, err := approver.policy.ApproveRevision(approver.ctx, &apiv1.ApproveRevisionRequest{Revision: got.GetRevision()}); err != nil {
		t.Errorf("the approver approves: %v", err)
	}
	h.Eventually("the CVM of web", func() error {
		if h.Platform.Created() < 2 {
			return errors.New("the platform created none")
		}
		return nil
	})
	if _, err := api.operators.RemoveOperator(api.ctx, &apiv1.RemoveOperatorRequest{Name: "operate"}); err != nil {
		t.Fatal(err)
	}
	if out, err := consul(authorToken, "kv", "get", "cadre/v1/groups/web/spec"); err == nil {
		t.Errorf("a removed operator reads: %s", out)
	}
}
