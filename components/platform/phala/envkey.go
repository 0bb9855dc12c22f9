package phala

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"cadre.dev/attest/dstacksdk"
	"cadre.dev/platform"
)

// keyServiceID names the key service where a provision reply names none.
const keyServiceID = "phala"

// sealEnv encrypts env for the guests of the app, whose key the platform gave. kms names the
// key service of the app.
func (c *Client) sealEnv(ctx context.Context, kms, appID string, key []byte, env map[string]string) (string, error) {
	if len(key) == 0 {
		return "", fmt.Errorf("the platform gave no key to encrypt env with: %w", platform.ErrRefused)
	}
	if err := c.checkEnvKey(ctx, cmp.Or(kms, keyServiceID), appID, key); err != nil {
		return "", fmt.Errorf("%w: %w", err, platform.ErrRefused)
	}
	sealed, err := dstacksdk.SealEnv(key, env)
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, platform.ErrRefused)
	}
	return sealed, nil
}

// checkEnvKey compares the signature that the platform shows for the key with the
// key service that is known. The platform's contract has a signature in each reply, so a
// reply without one is refused: a platform that leaves it out could have replaced the key.
func (c *Client) checkEnvKey(ctx context.Context, kms, appID string, key []byte) error {
	if c.keyService == nil {
		return nil
	}
	shown, err := c.envKeyProof(ctx, kms, appID)
	if err != nil {
		return err
	}
	service, err := c.keyService(ctx)
	if err != nil {
		return fmt.Errorf("env key of app %s: read who may sign it: %w", appID, err)
	}
	if err := shown.Verify(service, key, appID); err != nil {
		return fmt.Errorf("env key %x of app %s: %w: nothing was sealed for it; ask the platform whose key it is", key, appID, err)
	}
	return nil
}

// envKeyProof is empty where the platform shows no signature.
func (c *Client) envKeyProof(ctx context.Context, kms, appID string) (dstacksdk.EnvKeyProof, error) {
	var reply struct {
		Signature   text  `json:"signature"`
		SignatureV1 text  `json:"signature_v1"`
		Timestamp   whole `json:"timestamp"`
	}
	doing := "read the env key's signature for app " + appID
	err := c.read(ctx, call{doing: doing, method: http.MethodGet, into: &reply,
		path: "/kms/" + url.PathEscape(kms) + "/pubkey/" + url.PathEscape(appID)})
	if err != nil {
		return dstacksdk.EnvKeyProof{}, err
	}
	proof, err := dstacksdk.ReadEnvKeyProof(string(reply.Signature), string(reply.SignatureV1), uint64(max(0, int64(reply.Timestamp))))
	if err != nil {
		return dstacksdk.EnvKeyProof{}, fmt.Errorf("%s: %w", doing, err)
	}
	return proof, nil
}
