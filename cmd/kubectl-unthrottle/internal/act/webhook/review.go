package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is used of admission.k8s.io/v1. The API's own package has the types of a hundred other objects with it.
type (
	// A request is what a review asks.
	request struct {
		UID         string                  `json:"uid"`
		Kind        metav1.GroupVersionKind `json:"kind"`
		SubResource string                  `json:"subResource"`
		Name        string                  `json:"name"`
		Namespace   string                  `json:"namespace"`
		Operation   string                  `json:"operation"`
		DryRun      bool                    `json:"dryRun"`

		Object    json.RawMessage `json:"object"`
		OldObject json.RawMessage `json:"oldObject"`
	}
	review struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Request    *request `json:"request,omitempty"`
	}
	answer struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Response   response `json:"response"`
	}
	response struct {
		UID       string   `json:"uid"`
		Allowed   bool     `json:"allowed"`
		PatchType string   `json:"patchType,omitempty"`
		Patch     []byte   `json:"patch,omitempty"` // JSON in base64
		Warnings  []string `json:"warnings,omitempty"`
	}
)

const (
	reviewVersion = "admission.k8s.io/v1"
	reviewKind    = "AdmissionReview"
)

// readRequest reads a review. With an error comes a request that has the uid, if it can be found.
func readRequest(body []byte) (*request, error) {
	var r review
	if err := json.Unmarshal(body, &r); err != nil {
		return &request{UID: uidOf(body)}, errors.New("the review is not the JSON that it should be")
	}
	switch {
	case r.Request == nil:
		return &request{}, errors.New("the review asks nothing")
	case r.APIVersion != reviewVersion || r.Kind != reviewKind:
		return r.Request, fmt.Errorf("the review is not of %s", reviewVersion)
	case r.Request.Kind.Kind != "Pod" || r.Request.Kind.Group != "":
		return r.Request, errors.New("not a pod: the webhook's rules have to be for pods only")
	}
	return r.Request, nil
}

// uidOf finds the uid at the beginning of a review that can't be read whole. An answer without it counts as none.
func uidOf(text []byte) string {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	inRequest := false
	for {
		key, err := d.Token()
		if err != nil {
			return ""
		}
		switch {
		case key == "request" && !inRequest:
			if t, err := d.Token(); err != nil || t != json.Delim('{') {
				return ""
			}
			inRequest = true
			continue
		case key == "uid" && inRequest:
			uid, _ := d.Token()
			text, _ := uid.(string)
			return text
		}
		var skipped json.RawMessage
		if d.Decode(&skipped) != nil {
			return ""
		}
	}
}

// answerTo is the answer to a request: always allowed.
func answerTo(req *request, v verdict) answer {
	a := answer{APIVersion: reviewVersion, Kind: reviewKind}
	a.Response = response{UID: req.UID, Allowed: true, Warnings: sendable(v.warnings)}
	if len(v.patch) > 0 {
		patch, err := json.Marshal(v.patch)
		if err == nil { // it can't be otherwise: there are texts in it, and JSON that was read
			a.Response.PatchType, a.Response.Patch = "JSONPatch", patch
		}
	}
	return a
}
