# The service of Luthier. Code is made for, and measured on, the machine that the container runs on.
FROM python:3.11-slim

RUN useradd --create-home luthier
WORKDIR /srv/luthier
COPY pyproject.toml README.md LICENSE ./
COPY luthier luthier
COPY service service
COPY workers workers
COPY tuner tuner
COPY compiler compiler
COPY migrations migrations
RUN pip install --no-cache-dir '.[service,postgres]'

USER luthier
EXPOSE 8765
CMD ["luthier", "serve", "--host", "0.0.0.0", "--port", "8765"]
