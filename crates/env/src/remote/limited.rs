//! A client of HTTP that sends and receives no faster than it may.
//!
//! The bodies of requests and answers pass piece by piece, each after a wait ([`Pace`]). All
//! requests of a storage share the two rates.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, Error};

use super::pace::Pace;

/// The length of the pieces of which an object that is put consists.
pub(super) const PIECE_BYTES: usize = 32 << 10;

/// The rates of a storage, of the two directions.
#[derive(Debug, Clone, Default)]
pub(super) struct Paces {
    pub(super) upload: Option<Arc<Pace>>,
    pub(super) download: Option<Arc<Pace>>,
}

impl Paces {
    pub(super) fn is_limited(&self) -> bool {
        self.upload.is_some() || self.download.is_some()
    }
}

/// Makes clients that keep to the rates.
#[derive(Debug)]
pub(super) struct LimitedConnector {
    pub(super) paces: Paces,
    pub(super) connect_timeout: Duration,
    pub(super) read_timeout: Duration,
}

#[derive(Debug)]
struct LimitedClient {
    client: reqwest::Client,
    paces: Paces,
}

impl HttpConnector for LimitedConnector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient, Error> {
        // A machine gives the credentials of its role without TLS.
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .user_agent(concat!("onefold/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect_timeout)
            .read_timeout(self.read_timeout)
            .https_only(allows_http.as_deref() != Some("true"))
            .http1_only()
            .build();
        let client = client.map_err(|error| Error::Generic {
            store: "HTTP",
            source: Box::new(error),
        })?;
        let paces = self.paces.clone();
        Ok(HttpClient::new(LimitedClient { client, paces }))
    }
}

// The trait's own macro is not a dependency. This is the signature that it makes.
impl HttpService for LimitedClient {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let url = parts.uri.to_string().parse();
            let url = url.map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
            let mut request = reqwest::Request::new(parts.method, url);
            *request.headers_mut() = parts.headers;
            *request.body_mut() = Some(reqwest::Body::wrap(Paced::new(body, self.paces.upload.clone())));
            let response = self.client.execute(request).await.map_err(http_error)?;
            let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
            let paced = Paced::new(body, self.paces.download.clone());
            let body = HttpResponseBody::new(Mapped(paced));
            Ok(HttpResponse::from_parts(parts, body))
        })
    }
}

/// Except for a connection that was not made, nobody knows what became of the request.
fn http_error(error: reqwest::Error) -> HttpError {
    let kind = if error.is_timeout() {
        HttpErrorKind::Timeout
    } else if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_builder() {
        HttpErrorKind::Request
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error.without_url())
}

/// A body whose pieces wait for their turn.
struct Paced<B> {
    body: Pin<Box<B>>,
    pace: Option<Arc<Pace>>,
    /// A piece that waits.
    waiting: Option<(Pin<Box<tokio::time::Sleep>>, Frame<Bytes>)>,
}

impl<B: Body<Data = Bytes>> Paced<B> {
    fn new(body: B, pace: Option<Arc<Pace>>) -> Self {
        Self {
            body: Box::pin(body),
            pace,
            waiting: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for Paced<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.waiting.is_none() {
            let frame = match ready!(self.body.as_mut().poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            let bytes = frame.data_ref().map_or(0, |data| data.len() as u64);
            let wait = self.pace.as_ref().map_or(Duration::ZERO, |pace| pace.take(bytes));
            if wait.is_zero() {
                return Poll::Ready(Some(Ok(frame)));
            }
            self.waiting = Some((Box::pin(tokio::time::sleep(wait)), frame));
        }
        if let Some((sleep, _)) = &mut self.waiting {
            ready!(sleep.as_mut().poll(context));
        }
        Poll::Ready(self.waiting.take().map(|(_, frame)| Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.waiting.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let own = self.waiting.as_ref().and_then(|(_, frame)| frame.data_ref());
        let own = own.map_or(0, |data| data.len() as u64);
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + own);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + own);
        }
        hint
    }
}

/// An answer's body, with errors as the object store's client knows them.
struct Mapped(Paced<reqwest::Body>);

impl Body for Mapped {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let polled = pin!(&mut self.0).poll_frame(context);
        polled.map(|frame| frame.map(|frame| frame.map_err(http_error)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
