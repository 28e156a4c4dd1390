package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/unthrottle/unthrottle/cmd/internal/ground/hint"
	"github.com/unthrottle/unthrottle/cmd/internal/ground/web"
)

var errNotAPIServer = errors.New("the server there is not an API server")

// explain is the error of a server that can't be asked at all.
func (c *client) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	why, next := reason(err)
	if missing, ok := forbidden(err); ok {
		why, next = missing, "kubectl auth whoami says who you are; the ClusterRole system:discovery lets everybody ask which kinds there are"
	}
	return hint.With(fmt.Errorf("asking the API server at %s: %s", c.host, why), next)
}

// reason says why a request failed, and what to do.
func reason(err error) (why, hint string) {
	var (
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		certificate x509.CertificateInvalidError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		dns         *net.DNSError
		request     *url.Error
		redirect    *web.Redirect
	)
	cause := err
	if errors.As(err, &request) {
		cause = request.Err
	}
	switch {
	case errors.As(err, &redirect):
		return redirect.Error(), "an API server never redirects: look at what answers there, and who may create it"
	case errors.Is(err, ErrTooLarge):
		_, most, _ := strings.Cut(err.Error(), ErrTooLarge.Error())
		return ErrTooLarge.Error() + most, ""
	case errors.Is(err, errNotAPIServer):
		return err.Error(), "look at the server in the kubeconfig: kubectl config view --minify"
	case apierrors.IsUnauthorized(err):
		return "it does not know who you are (401)", "log in again, or look at the user of the context: kubectl config view --minify"
	case errors.As(err, &authority):
		return "its certificate is signed by an untrusted authority: " + authority.Error(), "the cluster's certificate-authority in the kubeconfig is missing or another one's"
	case errors.As(err, &hostname), errors.As(err, &certificate):
		return "its certificate is not valid: " + cause.Error(), "ask who runs the cluster; tls-server-name in the kubeconfig says which name to expect"
	case errors.As(err, &alert):
		return "it refuses the client's certificate: " + alert.Error(), "the user's client-certificate in the kubeconfig may have expired"
	case errors.As(err, &record), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "it does not speak TLS", "the server in the kubeconfig should begin with http://, or a proxy stands in between"
	case errors.As(err, &dns):
		return "its name is not known: " + dns.Error(), "look at the server in the kubeconfig, and at the network or VPN"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: connection refused", "is the cluster running? kubectl cluster-info asks it too"
	case timedOut(err):
		return "timed out", "a longer --request-timeout may help; a firewall or VPN may be in the way"
	case apierrors.IsTooManyRequests(err):
		return "too many requests (429)", "try again later, or one namespace at a time"
	case strings.Contains(err.Error(), "getting credentials"):
		return cause.Error(), "the kubeconfig names a program that gets credentials: run it by hand"
	}
	return cause.Error(), ""
}

func timedOut(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout() || apierrors.IsTimeout(err)
}

// unreachable says whether a server that answered before no longer does.
func unreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || timedOut(err) && !apierrors.IsTimeout(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || strings.Contains(err.Error(), "http2: client connection lost") ||
		strings.Contains(err.Error(), "GOAWAY") || apierrors.IsUnauthorized(err)
}

// forbidden is what the server says about a request that is not allowed.
func forbidden(err error) (message string, ok bool) {
	if !apierrors.IsForbidden(err) {
		return "", false
	}
	_, message, found := strings.Cut(err.Error(), " is forbidden: ")
	if !found {
		message = err.Error()
	}
	return message, true
}

func gone(err error) bool { return apierrors.IsNotFound(err) }

// expired says whether a list can't go on where it was, and gives where to go on instead: "" is its start.
func expired(err error) (next string, is bool) {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) || !errors.As(err, &status) {
		return "", false
	}
	return status.Status().Continue, true
}
