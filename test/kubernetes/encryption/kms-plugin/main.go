// A KMS v2 plugin for tests: it encrypts with the keys of a file, and is told to change, to fail and to fall silent by that file.
//
// Usage: kms-plugin SOCKET FILE. The file is JSON: {"current": "key id", "keys": {"key id": "64 hex digits"}, "healthz": "ok"}.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"k8s.io/kms/pkg/service"
)

type state struct {
	Current string            `json:"current"`
	Keys    map[string]string `json:"keys"`
	Healthz string            `json:"healthz"`
}

type plugin struct{ file string }

func (p plugin) state() (state, error) {
	var found state
	text, err := os.ReadFile(p.file)
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	return found, err
}

func (p plugin) cipher(id string) (cipher.AEAD, error) {
	found, err := p.state()
	if err != nil {
		return nil, err
	}
	text, ok := found.Keys[id]
	if !ok {
		return nil, fmt.Errorf("there is no key %q", id)
	}
	key, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (p plugin) Status(context.Context) (*service.StatusResponse, error) {
	found, err := p.state()
	if err != nil {
		return nil, err
	}
	return &service.StatusResponse{Version: "v2", Healthz: found.Healthz, KeyID: found.Current}, nil
}

// An annotation is part of what has to come back at decryption: a client that loses it fails.
const annotation = "version.kms-plugin.test"

func (p plugin) Encrypt(_ context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	found, err := p.state()
	if err != nil {
		return nil, err
	}
	aead, err := p.cipher(found.Current)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return &service.EncryptResponse{
		Ciphertext:  aead.Seal(nonce, nonce, data, []byte("1")),
		KeyID:       found.Current,
		Annotations: map[string][]byte{annotation: []byte("1")},
	}, nil
}

func (p plugin) Decrypt(_ context.Context, _ string, request *service.DecryptRequest) ([]byte, error) {
	aead, err := p.cipher(request.KeyID)
	if err != nil {
		return nil, err
	}
	size := aead.NonceSize()
	if len(request.Ciphertext) < size {
		return nil, fmt.Errorf("the ciphertext is too short")
	}
	return aead.Open(nil, request.Ciphertext[:size], request.Ciphertext[size:], request.Annotations[annotation])
}

func main() {
	server := service.NewGRPCService(os.Args[1], 5*time.Second, plugin{file: os.Args[2]})
	fmt.Println("serving")
	log.Fatal(server.ListenAndServe())
}
